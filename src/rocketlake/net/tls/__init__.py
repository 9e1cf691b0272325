"""Encrypted connections: settings and certificates, the bytes of one connection, the network made of both."""
