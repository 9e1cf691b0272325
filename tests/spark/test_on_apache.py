"""The same source on Apache's own name server and broker: batch, and a stream that stops and goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interop.apache import apache_cluster, run_driver

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]


def test_a_topic_of_an_apache_broker_as_table_and_stream(
    apache_jars: None, spark: SparkSession, tmp_path: Path
) -> None:
    with apache_cluster(tmp_path / "apache") as cluster:
        options = {"namesrvAddr": cluster.namesrv, "subscribe": "FromApache", "startingOffsets": "earliest"}

        def produce() -> None:
            assert run_driver("Produce", cluster.namesrv, "FromApache", "sync", 500, 80, "A,B")["sent"] == 500

        def run_stream() -> list[int]:
            writer = spark.readStream.format("rocketmq").options(**options).load().writeStream
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
