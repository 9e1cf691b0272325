"""How far each consumer group has read.

Owns        group offsets and their file.
Must not know   requests, connections, the messages of the queues.
Start reading at    table.py
"""
