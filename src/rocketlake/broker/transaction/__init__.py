"""Transactions: messages that consumers see only when their producer says so.

Owns        half messages, the record of which are ended, asking producers about those that are not.
Must not know   requests, connections.
Start reading at    half.py
"""
