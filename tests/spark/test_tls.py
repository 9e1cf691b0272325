"""The source and the sink of Spark on a cluster that takes encrypted connections only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketlake.testing.cluster import EmbeddedCluster
from tests.tls_files import Authority

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_rows_go_out_and_come_back_encrypted(spark: SparkSession, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    settings = {"tlsMode": "enforcing", "tlsConfigFile": authority.file()}
    with EmbeddedCluster(tmp_path / "cluster", settings=settings) as cluster:
        options = {"namesrvAddr": cluster.namesrv, "tlsConfigFile": authority.file()}
        rows = spark.range(1000).selectExpr("cast(id as string) as body")
        rows.write.format("rocketmq").mode("append").options(**options, topic="rows").save()
        read = spark.read.format("rocketmq").options(**options, subscribe="rows").load()
        numbers = read.selectExpr("cast(cast(body as string) as int) as n")
        assert numbers.selectExpr("count(*)", "sum(n)").collect()[0] == (1000, 999 * 500)
