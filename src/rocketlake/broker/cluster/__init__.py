"""What the broker asks others: name servers that it registers at, brokers that share its topics.

Owns        registration and its rounds, outgoing links, the queues of a topic at all brokers.
Must not know   messages, the store.
Start reading at    registration.py
"""
