"""What the messages of gRPC v2 mean here: pure functions, no I/O.

Owns        v2 messages <-> our messages, routes, groups, handles, headers; which v2 code a failure is.
Must not know   connections, who asks a broker.
Start reading at    outgoing.py (a send), incoming.py (a receive)
"""
