"""The disk: its interface, the real one, one in memory, one that fails on request.

Owns        the only calls that open, rename, sync and delete files.
Must not know   the content of files.
Start reading at    seam.py
"""
