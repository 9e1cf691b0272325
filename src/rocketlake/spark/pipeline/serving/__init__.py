"""`rocketlake lake serve`: topics kept as tables of the lake, many in one Spark application.

Owns        which tables are wanted, their turns in one Spark session, what is reported and looked after.
Must not know   the terminal; how a batch gets into a table (rocketlake.spark.lake).

Start reading at supervisor.py.
"""
