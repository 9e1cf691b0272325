"""The same source on Apache's own name server and broker: batch, and a stream that stops and goes on."""

from __future__ import annotations

import asyncio
from datetime import UTC
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from interop.apache import apache_cluster, run_driver
from rocketlake.admin.cluster import Cluster
from rocketlake.admin.groups import ClusterGroups

pytestmark = pytest.mark.interop


def test_a_topic_of_an_apache_broker_as_table_and_stream(
    apache_jars: None, spark: SparkSession, tmp_path: Path
) -> None:
    with apache_cluster(tmp_path / "apache") as cluster:
        options = {"namesrvAddr": cluster.namesrv, "subscribe": "FromApache", "startingOffsets": "earliest"}

        def produce() -> None:
            assert run_driver("Produce", cluster.namesrv, "FromApache", "sync", 500, 80, "A,B")["sent"] == 500

        def run_stream() -> list[int]:
            stream = spark.readStream.format("rocketmq").options(**options)
            stream = stream.option("consumerGroup", "spark-on-apache").option("maxBytesPerTrigger", "50k")
            writer = stream.load().writeStream
            writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
            writer.format("parquet").option("path", str(tmp_path / "table")).start().awaitTermination(90)
            return sorted(int(row.body) for row in spark.read.parquet(str(tmp_path / "table")).collect())

        produce()
        table = spark.read.format("rocketmq").options(**options).load()
        assert table.count() == 500
        assert table.where("tags = 'A'").count() == 250
        assert run_stream() == list(range(500))
        produce()
        assert run_stream() == sorted([*range(500), *range(500)])

        def count(**more: str) -> int:
            given = {name: value for name, value in (options | more).items() if value}
            return spark.read.format("rocketmq").options(**given).load().count()

        first = table.agg({"storeTimestamp": "max"}).first()[0]
        after = spark.read.format("rocketmq").options(**options).load().where(F.col("storeTimestamp") > first).count()
        first_ms = round(first.replace(tzinfo=UTC).timestamp() * 1000)
        of_that_time = count(startingTimestamp=str(first_ms), endingTimestamp=str(first_ms + 1))
        assert of_that_time >= 1
        assert count(startingTimestamp=str(first_ms)) - after == of_that_time
        assert count(subscribe="", subscribePattern=".*") == 1000
        assert count(tags="A") == 500
        with pytest.raises(Exception, match="enablePropertyFilter=true"):
            count(**{"filter.sql92": "TAGS = 'A'"})

        async def progress() -> dict[str, int]:
            async with Cluster(cluster.namesrv) as admin:
                offsets = await ClusterGroups(admin).offsets("spark-on-apache")
                return {
                    "read": sum(each.consumer_offset for each in offsets.values()),
                    "lag": sum(each.broker_offset - each.consumer_offset for each in offsets.values()),
                }

        assert asyncio.run(progress()) == {"read": 1000, "lag": 0}
        assert count(startingOffsets="group", startingGroup="spark-on-apache") == 0
        assert count(endingOffsets="group", endingGroup="spark-on-apache") == 1000
