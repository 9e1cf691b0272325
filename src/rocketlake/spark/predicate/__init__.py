"""One SQL92 filter in two more engines: Arrow compute and Spark SQL decide it as the broker does.

Owns        the translations of filter/sql_tree.py.
Must not know   how an expression is written, where rows come from.
Start reading at    to_arrow.py, to_spark.py
"""
