"""format("rocketmq_lake") in a real Spark: three formats, read back by Spark, DuckDB and pandas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from rocketlake.spark.lake.tables.iceberg_table import TABLE, catalog
from rocketlake.testing.cluster import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def run(spark: SparkSession, cluster: EmbeddedCluster, topics: str, folder: Path, **options: Any) -> None:
    """The topics into lake tables, to the end of what is there."""
    reader = spark.readStream.format("rocketmq").option("namesrvAddr", cluster.namesrv).option("subscribe", topics)
    writer = reader.option("startingOffsets", "earliest").load().writeStream.format("rocketmq_lake")
    for name, value in options.items():
        writer = writer.option(name, value)
    writer = writer.option("checkpointLocation", str(folder) + "-checkpoint").trigger(availableNow=True)
    query = writer.start(str(folder))
    assert query.awaitTermination(150)


@pytest.mark.smoke
def test_parquet_partitioned_and_read_by_spark_duckdb_and_pandas(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "orders"
    options = {"bodyFormat": "json", "bodySchema": "id int, price float", "partitionBy": "storeDay,tags"}
    cluster.send("lake-parquet", (b'{"id": %d, "price": 1.5}' % n for n in range(100)), tags="a b/c")
    run(spark, cluster, "lake-parquet", folder, **options)
    cluster.send("lake-parquet", (b'{"id": %d}' % n for n in range(100, 130)), tags="B")
    cluster.send("lake-parquet", [b"no json"], tags="B")
    run(spark, cluster, "lake-parquet", folder, **options)

    plain = spark.read.parquet(str(folder))
    assert sorted(row.id for row in plain.collect()) == [*range(130)]
    assert plain.where("tags = 'a b/c'").count() == 100
    assert dict(plain.dtypes)["id"] == "bigint"
    own = spark.read.format("rocketmq_lake").load(str(folder))
    assert sorted(row.id for row in own.collect()) == [*range(130)]
    assert own.where("tags = 'B' and price is null").count() == 30
    files = f"{folder}/**/*.parquet"
    counted = duckdb.sql(f"select count(*), sum(id) from read_parquet('{files}', hive_partitioning=true)").fetchall()
    assert counted == [(130, sum(range(130)))]
    assert sorted(pd.read_parquet(folder)["id"]) == [*range(130)]
    (dead,) = spark.read.parquet(f"{folder}__dlq").collect()
    assert (dead.body, dead.topic, dead.dlqReason.startswith("json:")) == (b"no json", "lake-parquet", True)


@pytest.mark.parametrize("table_format", [pytest.param("delta", marks=pytest.mark.smoke), "iceberg"])
def test_delta_and_iceberg_through_spark_and_arrow(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path, table_format: str
) -> None:
    topics = [f"lake-{table_format}-{letter}" for letter in "ab"]
    for topic in topics:
        cluster.send(topic, (b'{"id": %d}' % n for n in range(50)), tags="A")
    options = {"tableFormat": table_format, "tableLayout": "topic", "bodyFormat": "json"}
    run(spark, cluster, ",".join(topics), tmp_path, **options)
    cluster.send(topics[0], [b'{"id": 50, "new": "column"}'])
    run(spark, cluster, ",".join(topics), tmp_path, **options)

    folder = tmp_path / topics[0]
    own = spark.read.format("rocketmq_lake").load(str(folder))
    assert sorted(row.id for row in own.collect()) == [*range(51)]
    assert [row.new for row in own.where("new is not null").collect()] == ["column"]
    assert own.where("id = 7").first().properties["TAGS"] == "A"
    if table_format == "delta":
        found = DeltaTable(str(folder)).to_pyarrow_dataset().to_table()
    else:
        found = catalog(folder).load_table(TABLE).scan().to_arrow()
    assert duckdb.sql("select count(*), sum(id) from found").fetchall() == [(51, sum(range(51)))]
    assert sorted(found.to_pandas()["id"]) == [*range(51)]
    assert spark.read.format("rocketmq_lake").load(str(tmp_path / topics[1])).count() == 50


@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
def test_partitions_with_letters_of_all_scripts(spark: SparkSession, tmp_path: Path, table_format: str) -> None:
    values = ["杭州", "Zürich", "a b/c%", "\u007f\u0085\U0001d11e", "x:{[^]}#'\""]
    rows = spark.createDataFrame(list(enumerate(values)), "id bigint, `城` string").coalesce(1)
    folder = tmp_path / "t"
    writer = rows.write.format("rocketmq_lake").option("tableFormat", table_format).option("partitionBy", "城")
    writer.mode("append").save(str(folder))
    wanted = dict(enumerate(values))
    assert {row.id: row.城 for row in spark.read.format("rocketmq_lake").load(str(folder)).collect()} == wanted
    if table_format == "delta":
        found = DeltaTable(str(folder)).to_pyarrow_dataset().to_table().to_pandas()
        assert dict(zip(found["id"], found["城"], strict=True)) == wanted
    elif table_format == "iceberg":
        found = catalog(folder).load_table(TABLE).scan().to_pandas()
        assert dict(zip(found["id"], found["城"], strict=True)) == wanted
    else:
        plain = spark.read.parquet(str(folder))
        assert {row.id: row.城 for row in plain.collect()} == wanted
        assert [row.id for row in plain.where("`城` = '杭州'").collect()] == [0]
        files = f"read_parquet('{folder}/*/*.parquet', hive_partitioning=true)"
        assert dict(duckdb.sql(f"select id, 城 from {files}").fetchall()) == wanted
        frame = pd.read_parquet(folder)
        assert dict(zip(frame["id"], frame["城"].astype(str), strict=True)) == wanted


def test_a_batch_write_with_a_number_happens_once(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(10).selectExpr("id", "cast(id as int) as small", "current_date() as day")
    for _ in range(2):
        (
            frame.write.format("rocketmq_lake")
            .option("txnAppId", "backfill")
            .option("txnVersion", 1)
            .mode("append")
            .save(str(tmp_path / "t"))
        )
    assert spark.read.parquet(str(tmp_path / "t")).count() == 10


def test_a_lake_table_has_a_name_in_sql_and_cannot_be_read_as_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "named")
    rows = spark.createDataFrame([(number, f"c{number}") for number in range(5)], "id bigint, city string")
    rows.write.format("rocketmq_lake").option("partitionBy", "none").mode("append").save(folder)
    for number, place in enumerate((f"OPTIONS (path '{folder}')", f"LOCATION '{folder}'")):
        spark.sql(f"CREATE TABLE lake_{number} USING rocketmq_lake {place}")
        try:
            found = spark.sql(f"SELECT id FROM lake_{number} WHERE city <> 'c3' ORDER BY id").collect()
            assert [row.id for row in found] == [0, 1, 2, 4]
        finally:
            spark.sql(f"DROP TABLE lake_{number}")
    with pytest.raises(Exception, match=r"rocketmq_lake.*cannot be read as a stream"):
        stream = spark.readStream.format("rocketmq_lake").load(folder).writeStream.format("noop")
        stream.option("checkpointLocation", folder + "-checkpoint").start().awaitTermination(60)
