"""Lake tables: a stream of messages becomes a Parquet, Delta or Iceberg table, each row once.

Owns        options, body formats, data files, the commit of a batch, maintenance.
Must not know   the message system, the command line.

Start reading at docs/internals/lake_commit.md, then task.py (the work of a Spark task) and batch_commit.py (the
driver).
"""
