"""Bodies of messages -> columns.

Owns        one parser per body format.
Must not know   tables, files, Spark's calls.   Start reading at parsed.py.
"""
