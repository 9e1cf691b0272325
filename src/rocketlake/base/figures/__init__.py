"""Numbers that parts of a server count, for those that watch it.

Owns        the forms in which they are counted.
Must not know   what is counted.
"""
