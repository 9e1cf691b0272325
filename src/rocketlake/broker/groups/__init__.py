"""The settings of consumer groups.

Owns        group settings and their file.
Must not know   requests and replies, connected members (clients/), topics, offsets.
Start reading at    table.py
"""
