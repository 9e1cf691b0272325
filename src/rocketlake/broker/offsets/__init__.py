"""How far each consumer group has read.

Owns        group offsets and their file.
Must not know   requests, connections, what is in the queues.
Start reading at    table.py
"""
