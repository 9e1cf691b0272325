"""Which messages a subscription wants.

Owns        tag tests (SQL92 comes with its own issue).
Must not know   requests, where messages lie.
Start reading at    tag.py
"""
