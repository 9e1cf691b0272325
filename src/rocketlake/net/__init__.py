"""The only package with sockets: servers, clients and their links.

Owns: listening, connecting, back-pressure, deadlines, drain. Must not know: what a request code means.
Start reading at link.py (one connection and its parts), then server.py and client.py.
"""
