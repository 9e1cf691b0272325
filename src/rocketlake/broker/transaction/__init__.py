"""Transactions: messages that consumers see only when their producer says so.

Owns        half messages, the notes of their ends, the questions to producers about half messages without an end.
Must not know   requests, connections.
Start reading at    half.py
"""
