"""How fast RocketLake's Spark formats are, beside what Spark itself can do here. Owns one module per kind of load.

Each load measures its ceiling in the same session: the same rows, prebuilt, through the same Spark path
(prebuilt.py). Start reading at plan.py, then one load.
"""

from __future__ import annotations

from bench.spark_loads import kafka, scan, sink, stream
from bench.spark_loads.plan import SparkLoad

LOADS: tuple[SparkLoad, ...] = (*scan.LOADS, *stream.LOADS, *sink.LOADS, *kafka.LOADS)
"""All, in the order they run."""
