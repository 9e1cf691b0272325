"""Pipelines in YAML: source, transform, route, sink, onError, run as streaming queries or exported.

Owns: the YAML form and what it means in Spark. Must not know: insides of the formats it names, beyond
their option tables.
Start reading at: read.py, then engine.py.
"""
