"""Makes format("rocketmq_lake") known to Spark, which looks for DefaultSource in every package named pyspark_*.

Owns        this name only.   Start reading at rocketlake/spark/lake/data_source.py.
"""

from rocketlake.spark.lake.data_source import RocketMQLakeDataSource as DefaultSource

__all__ = ["DefaultSource"]
