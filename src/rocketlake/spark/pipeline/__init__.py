"""Pipelines in YAML: source, transform, route, sink, onError, run as streaming queries or exported.

Owns        the YAML form and its meaning in Spark.
Must not know   the formats that it names, beyond their option tables.   Start reading at read.py, then engine.py.
"""
