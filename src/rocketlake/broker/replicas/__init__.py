"""What a slave copies and serves besides the log: topics, groups, offsets, progress of delayed messages.

Owns        both sides of a copy: what a master tells of its tables, and how a slave takes them over.
Must not know   the stream of log bytes, why a role changes, what a table holds.
Start reading at    copies.py (the slave), editions.py (the master)
"""
