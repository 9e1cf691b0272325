"""format("rocketmq_lake") on an S3 server: written by a stream, read by Spark, deltalake, DuckDB and pandas."""

from __future__ import annotations

import random
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from rocketlake.spark.places.location import location_of
from rocketlake.testing.cluster import EmbeddedCluster
from tests.s3_server import SECRET, options_for, s3_server


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server("lake") as endpoint:
        yield endpoint


def run(spark: SparkSession, cluster: EmbeddedCluster, topic: str, url: str, checkpoint: Path, **options: str) -> None:
    """The topic into a table, to the end of what is there."""
    reader = spark.readStream.format("rocketmq").option("namesrvAddr", cluster.namesrv)
    rows = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    writer = rows.writeStream.format("rocketmq_lake").options(**options)
    writer = writer.option("bodyFormat", "json").option("bodySchema", "id bigint")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(url)
    assert query.awaitTermination(150)


def test_a_topic_becomes_a_delta_table_on_s3(
    spark: SparkSession, cluster: EmbeddedCluster, endpoint: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url, options = "s3://lake/tables/orders", options_for(endpoint, tmp_path_factory.mktemp("keys"))
    checkpoint = tmp_path_factory.mktemp("checkpoint")

    cluster.send("on-s3", (b'{"id": %d}' % n for n in range(100)), tags="A")
    run(spark, cluster, "on-s3", url, checkpoint, **options)
    cluster.send("on-s3", [*(b'{"id": %d}' % n for n in range(100, 130)), b"no json"], tags="A")
    run(spark, cluster, "on-s3", url, checkpoint, **options)
    for name in ("1", ".1.crc"):  # as if the driver had died before Spark noted the batch
        (checkpoint / "commits" / name).unlink()
    run(spark, cluster, "on-s3", url, checkpoint, **options)

    table = DeltaTable(
        url,
        storage_options={
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_REGION": "us-east-1",
        },
    )
    found = table.to_pyarrow_dataset().to_table()
    assert duckdb.sql("select count(*), sum(id) from found").fetchall() == [(130, sum(range(130)))]
    assert sorted(found.to_pandas()["id"]) == [*range(130)]
    own = spark.read.format("rocketmq_lake").options(**options).load(url)
    assert sorted(row.id for row in own.collect()) == [*range(130)]
    (dead,) = spark.read.format("rocketmq_lake").options(**options).load(url + "__dlq").collect()
    assert (dead.body, dead.topic) == (b"no json", "on-s3")
    assert SECRET not in own._jdf.queryExecution().toString()


def test_a_topic_becomes_an_iceberg_table_on_s3_with_a_name_in_a_catalog(
    spark: SparkSession, cluster: EmbeddedCluster, endpoint: str, tmp_path: Path
) -> None:
    url, options = "s3://lake/tables/payments", options_for(endpoint, tmp_path)
    options |= {"tableFormat": "iceberg", "catalog.type": "sql", "catalog.uri": f"sqlite:///{tmp_path}/catalog.db"}
    cluster.send("iceberg-on-s3", (b'{"id": %d}' % n for n in range(50)), tags="A")
    run(spark, cluster, "iceberg-on-s3", url, tmp_path / "checkpoint", **options)
    cluster.send("iceberg-on-s3", (b'{"id": %d}' % n for n in range(50, 60)), tags="A")
    run(spark, cluster, "iceberg-on-s3", url, tmp_path / "checkpoint", **options)

    keys = {"s3.endpoint": endpoint, "s3.access-key-id": "a", "s3.secret-access-key": "a", "s3.region": "us-east-1"}
    catalog = load_catalog("rocketlake", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", **keys)
    found = catalog.load_table("lake.payments").scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == [*range(60)]
    assert duckdb.from_arrow(found).aggregate("count(*), sum(id)").fetchall() == [(60, sum(range(60)))]
    own = spark.read.format("rocketmq_lake").options(**options).load(url)
    assert sorted(row.id for row in own.collect()) == [*range(60)]


def test_a_large_file_comes_in_parts_and_nothing_is_left_of_an_aborted_one(endpoint: str, tmp_path: Path) -> None:
    place = location_of("s3://lake/large", options_for(endpoint, tmp_path), what="path").open()
    whole, gone = place.path / "whole", place.path / "gone"
    data = bytes(range(256)) * (20 << 12)
    for path in (whole, gone):
        writing = place.writer(path)
        for at in range(0, len(data), 1 << 20):
            writing.sink.write(data[at : at + (1 << 20)])
        assert place.sizes([path]) == [None]
        writing.close() if path == whole else writing.abort()
    assert place.sizes([whole, gone]) == [len(data), None]
    assert place.get(whole) == data
    with urllib.request.urlopen(f"{endpoint}/lake?uploads", timeout=60) as answer:
        assert b"<Upload>" not in answer.read()


def test_a_large_table_of_bodies_is_written_and_read(endpoint: str, tmp_path: Path) -> None:
    place = location_of("s3://lake/bodies", options_for(endpoint, tmp_path), what="path").open()
    rng = random.Random(1)
    table = pa.table({"id": range(40), "body": [rng.randbytes(1 << 19) for _ in range(40)]})
    writing = place.writer(place.path / "t")
    pq.write_table(table, writing.sink, row_group_size=10)
    writing.close()
    with pq.ParquetFile(place.source(place.path / "t")) as found:
        assert found.read_row_group(2) == table.slice(20, 10)
        assert found.read() == table
