"""The broker as a client of its cluster: it registers at name servers, and asks them where topics live.

Owns        registration and its rounds, outgoing links, the queues of a topic at all brokers, the role of this broker.
Must not know   messages, the store.
Start reading at    registration.py
"""
