"""Tables that are saved as a whole: topics, groups, offsets and their like.

Owns        when a table is written, its file, the calls that wait until it is on disk.
Must not know   what a table holds.
Start reading at    saved_table.py
"""
