"""The disk: what may be asked of it, the real one, one in memory, one that fails on request.

Owns        the only calls that open, rename, sync and delete files.
Must not know   what is in the files.
Start reading at    seam.py
"""
