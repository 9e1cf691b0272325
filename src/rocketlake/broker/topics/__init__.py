"""Which topics exist.

Owns        the topic table and its file, when a topic is made on its own.
Must not know   messages, connections.
Start reading at    table.py
"""
