"""One small processor per family of name server requests.

Owns        turning a request into a question to a table, and the answer into a reply.
Must not know   each other, sockets.
Start reading at    route.py
"""
