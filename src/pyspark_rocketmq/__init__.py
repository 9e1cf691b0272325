"""Makes format("rocketmq") known to Spark, which looks for DefaultSource in every package named pyspark_*.

Owns        this name only.   Start reading at rocketlake/spark/data_source.py.
"""

from rocketlake.spark.data_source import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
