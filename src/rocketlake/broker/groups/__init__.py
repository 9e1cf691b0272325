"""Consumer and producer groups: their settings and who of them is connected.

Owns        group settings and their file, live consumers, live producers.
Must not know   requests and replies, topics, offsets.
Start reading at    consumers.py
"""
