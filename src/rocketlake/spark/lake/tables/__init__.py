"""The three kinds of table behind one protocol.

Owns        the way of one batch into one commit of a table.
Must not know   Spark's calls, bodies.   Start reading at table.py, then parquet_table.py.
"""
