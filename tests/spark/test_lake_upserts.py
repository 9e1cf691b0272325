"""A topic of changes becomes a table of rows, in a real Spark: by key, on a disk and on an S3 server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rocketlake.spark.lake.tables.iceberg_table import TABLE, catalog
from rocketlake.spark.lake.upserts.spark_hash import buckets_of
from rocketlake.testing.cluster import EmbeddedCluster
from tests.s3_server import options_for, s3_server

ROW = "id bigint, name string, version bigint, gone boolean"
RULE = {"mergeKeys": "id", "versionColumn": "version", "deleteWhen": "gone", "mergeBuckets": "4"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def rows_of(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> DataFrame:
    reader = spark.readStream.format("rocketmq").option("namesrvAddr", cluster.namesrv).option("subscribe", topic)
    return reader.option("startingOffsets", "earliest").load()


def run(rows: DataFrame, url: str, checkpoint: Path, **options: str) -> None:
    writer = rows.writeStream.format("rocketmq_lake").options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(url)
    assert query.awaitTermination(150)


def send(cluster: EmbeddedCluster, topic: str, changes: list[dict[str, Any]]) -> None:
    cluster.send(topic, [json.dumps(change).encode() for change in changes], tags="A")


def test_buckets_are_the_partitions_that_spark_makes_of_keys(spark: SparkSession) -> None:
    made = spark.range(-500, 500).selectExpr(
        "id",
        "repeat('ä', cast(id % 13 as int)) || id as text",
        "date_add(date '2026-01-01', cast(id as int)) as day",
        "if(id % 7 = 0, null, id * 1234567890123) as large",
    )
    for keys in (["id"], ["text"], ["day"], ["large"], ["text", "id", "day"]):
        found = made.withColumn("bucket", f.expr(f"pmod(hash({','.join(keys)}), 16)")).toArrow()
        assert buckets_of([found.column(key) for key in keys], 16).tolist() == found.column("bucket").to_pylist()


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_topic_of_changes_becomes_a_table_of_rows(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path, table_format: str
) -> None:
    topic, folder = f"upserts-{table_format}", tmp_path / "customers"
    changes = rows_of(spark, cluster, topic)
    parsed = changes.select(f.from_json(f.col("body").cast("string"), ROW).alias("row")).select("row.*")
    options = RULE | {"tableFormat": table_format}
    send(cluster, topic, [{"id": n, "name": f"n{n}", "version": 1} for n in range(40)])
    run(parsed.repartition(4, "id"), str(folder), tmp_path / "checkpoint", **options)
    send(cluster, topic, [{"id": n, "name": "new", "version": 3} for n in range(0, 40, 4)])
    send(cluster, topic, [{"id": 1, "version": 5, "gone": True}, {"id": 1, "name": "late", "version": 4}])
    send(cluster, topic, [{"id": 0, "name": "late", "version": 2}])
    run(parsed.repartition(4, "id"), str(folder), tmp_path / "checkpoint", **options)
    wanted = {n: "n" + str(n) if n % 4 else "new" for n in range(40) if n != 1}
    own = spark.read.format("rocketmq_lake").load(str(folder))
    assert {row.id: row.name for row in own.collect()} == wanted
    if table_format == "delta":
        found = DeltaTable(str(folder)).to_pyarrow_dataset().to_table()
    else:
        found = catalog(folder).load_table(TABLE).scan().to_arrow()
    assert dict(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True)) == wanted
    assert not [*(folder / "_rocketlake").rglob("*.parquet")]  # the tasks rewrote the buckets


def envelope(op: str, lsn: int, before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    return {"payload": {"op": op, "before": before, "after": after, "source": {"lsn": lsn, "table": "customers"}}}


def test_a_change_stream_of_debezium_becomes_a_table_on_an_s3_server(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    with s3_server("lake") as endpoint:
        options = options_for(endpoint, tmp_path) | {"bodyFormat": "debezium", "bodySchema": "id bigint, name string"}
        options |= {"mergeKeys": "id", "mergeBuckets": "2"}
        changes = rows_of(spark, cluster, "debezium")
        send(cluster, "debezium", [envelope("r", 10, None, {"id": n, "name": "first"}) for n in range(6)])
        run(changes, "s3://lake/customers", tmp_path / "checkpoint", **options)
        send(cluster, "debezium", [envelope("u", 30, None, {"id": 1, "name": "second"})])
        send(cluster, "debezium", [envelope("d", 40, {"id": 2}, None)])
        cluster.send("debezium", [b"null"], tags="A")
        send(cluster, "debezium", [envelope("u", 20, None, {"id": 2, "name": "late"})])
        send(cluster, "debezium", [envelope("t", 50, None, None)])
        run(changes, "s3://lake/customers", tmp_path / "checkpoint", **options)
        read = spark.read.format("rocketmq_lake").options(**options_for(endpoint, tmp_path))
        found = read.load("s3://lake/customers").collect()
        assert {row.id: (row.name, row.changeOp) for row in found} == {
            n: ("second", "u") if n == 1 else ("first", "r") for n in range(6) if n != 2
        }
        (dead,) = read.load("s3://lake/customers__dlq").collect()
        assert dead.dlqReason == "debezium: the table was truncated at the source"


def run_example(cluster: EmbeddedCluster, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    program = Path(__file__).parents[2] / "examples" / "upserts.py"
    command = [sys.executable, str(program), cluster.namesrv, str(folder)]
    environment = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)


def test_the_example_keeps_customers_up_to_date(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    killed = run_example(cluster, tmp_path, ROCKETLAKE_CRASH="lake.after_changes")  # buckets are written, not committed
    assert killed.returncode != 0
    done = [run_example(cluster, tmp_path) for _ in range(2)]
    assert [each.returncode for each in done] == [0, 0], done[0].stderr[-2000:]
    assert [each.stdout.strip().splitlines()[-1] for each in done] == ["1 Ada, 2 Bob, 3 Cleo", "1 Ada L., 3 Cleo"]
