"""Makes format("rocketmq_store") known to Spark, which looks for DefaultSource in every package named pyspark_*.

Owns        this name only.   Start reading at rocketlake/spark/scan/data_source.py.
"""

from rocketlake.spark.scan.data_source import StoreDataSource as DefaultSource

__all__ = ["DefaultSource"]
