"""The disk: its interface, the real one, one in memory, one that fails on request; small files replaced as a whole.

Owns        the only calls that open, rename, sync and delete files.
Must not know   the content of files, but that small ones are JSON.
Start reading at    seam.py
"""
