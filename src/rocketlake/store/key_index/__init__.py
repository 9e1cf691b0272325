"""A hash index over the commit log: message key and time -> physical offsets.

Owns the index files: header, slots, entries, rolling, expiry, repair. Must not know records, queues.
Start reading at files.py. Layout: docs/internals/store_layout.md, "Key index".
"""
