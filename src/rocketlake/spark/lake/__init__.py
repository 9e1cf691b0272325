"""Lake tables: a stream of messages becomes a Parquet, Delta or Iceberg table, each row once.

Owns: options, body formats, data files, the commit of a batch, maintenance. Must not know: the message system, cli.
Start reading at: docs/internals/lake_commit.md, then task.py (what a Spark task does) and batch_commit.py (the driver).
"""
