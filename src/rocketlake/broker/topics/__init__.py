"""The topics that exist on this broker.

Owns        the topic table and its file, topics that are made by being used.
Must not know   messages, connections.
Start reading at    table.py
"""
