"""The places where tables and kept files lie: a local disk, or an object store.

Owns        one seam over both: put-if-absent, put, get, list, delete, files written as a whole; the options of stores.
Must not know   tables, what the files mean.   Start reading at place.py, then stored.py.
"""
