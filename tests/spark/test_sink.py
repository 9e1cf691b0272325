"""format("rocketmq") as a sink: a real Spark, a real cluster."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from interop.apache import apache_cluster
from rocketlake.admin.cluster import Cluster, TopicPlan
from rocketlake.testing.cluster import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def make_topic(namesrv: str, topic: str, queues: int = 4) -> None:
    async def make() -> None:
        async with Cluster(namesrv) as admin:
            await admin.create_topic(TopicPlan(topic, queues, 6))

    asyncio.run(make())


def read(spark: SparkSession, namesrv: str, topic: str) -> DataFrame:
    return spark.read.format("rocketmq").option("namesrvAddr", namesrv).option("subscribe", topic).load()


def bodies(spark: SparkSession, namesrv: str, topic: str) -> Counter[int]:
    return Counter(int(row.body) for row in read(spark, namesrv, topic).select("body").collect())


def all_rows(spark: SparkSession, namesrv: str, topic: str, count: int) -> list[Row]:
    """All messages of a topic at Apache's broker, which puts them into their queues some time after its answer."""
    ends = time.monotonic() + 60
    while len(rows := read(spark, namesrv, topic).select("body", "keys", "msgId").collect()) < count:
        assert time.monotonic() < ends, f"{len(rows)} of {count} messages"
    return rows


@pytest.mark.smoke
def test_a_table_becomes_messages(spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    rows = spark.range(5000, numPartitions=2).select(
        F.col("id").cast("string").alias("body"),
        F.lit("TagA").alias("tags"),
        F.concat(F.lit("key"), "id").alias("keys"),
        F.when(F.col("id") % 2 == 0, (F.col("id") % 7).cast("string")).alias("shardingKey"),
        F.create_map(F.lit("parity"), (F.col("id") % 2).cast("string")).alias("properties"),
    )
    progress = tmp_path / "progress.jsonl"
    writer = rows.write.format("rocketmq").option("namesrvAddr", cluster.namesrv).option("topic", "table")
    writer.option("progressPath", str(progress)).mode("append").save()
    found = read(spark, cluster.namesrv, "table").collect()
    assert sorted(int(row.body) for row in found) == [*range(5000)]
    one = next(row for row in found if row.body == b"42")
    assert (one.tags, one.keys, one.shardingKey, one.properties["parity"]) == ("TagA", "key42", "0", "0")
    places = {(row.shardingKey, row.queueId) for row in found if row.shardingKey is not None}
    assert len(places) == 7, "each sharding key has one queue"
    (line,) = progress.read_text().splitlines()
    numbers = json.loads(line)
    assert (numbers["rows"], numbers["messages"], numbers["tasks"], numbers["batchId"]) == (5000, 5000, 2, 0)


def stream_into(
    spark: SparkSession,
    cluster: EmbeddedCluster,
    source: str,
    target: str,
    folder: Path,
    plan: Callable[[DataFrame], DataFrame] = lambda rows: rows,
    **options: Any,
) -> None:
    """The stream of one topic into another one, until all is through."""
    rows = spark.readStream.format("rocketmq").option("namesrvAddr", cluster.namesrv).option("subscribe", source)
    rows = rows.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 40).load()
    # `topic` and the queues of the source are columns, too: the rows go where options and columns say.
    rows = plan(rows.drop("brokerName", "queueId"))
    writer = rows.writeStream.format("rocketmq").option("namesrvAddr", cluster.namesrv)
    for name, value in ({"topic": target} | options).items():
        writer = writer.option(name, str(value))
    writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start().awaitTermination(90)


@pytest.mark.parametrize(("guarantee", "copies"), [("effectively_once", 1), ("at_least_once", 2)])
def test_a_micro_batch_that_is_repeated(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path, guarantee: str, copies: int
) -> None:
    """The driver dies between the sink's last send and Spark's commit: the batch is written again."""
    source, target, checkpoint = f"in-{guarantee}", f"out-{guarantee}", tmp_path / "checkpoint"
    make_topic(cluster.namesrv, target)
    cluster.send(source, (b"%d" % number for number in range(100)))
    options = {"deliveryGuarantee": guarantee, "progressPath": tmp_path / "progress"}
    stream_into(spark, cluster, source, target, checkpoint, **options)
    assert bodies(spark, cluster.namesrv, target) == Counter(range(100))
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    assert last == 2, "three batches of at most 40"
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()
    stream_into(spark, cluster, source, target, checkpoint, **options)
    found = bodies(spark, cluster.namesrv, target)
    repeated = [number for number, count in found.items() if count != 1]
    assert sorted(found) == [*range(100)]
    assert len(repeated) == (0 if copies == 1 else 100 - 2 * 40)
    last_line = json.loads((tmp_path / "progress").read_text().splitlines()[-1])
    assert (last_line["batchId"], last_line["messages"]) == (2, 20)
    assert last_line["replayed"] == (20 if copies == 1 else 0)


@pytest.mark.smoke
def test_a_batch_that_is_repeated_with_another_plan_is_visible_once(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """exactly_once: the driver dies before Spark's commit, and the next one has other partitions and another order."""
    for topic in ("exact", "exact__decisions"):
        make_topic(cluster.namesrv, topic)
    cluster.send("exact-in", (b"%d" % number for number in range(60)))
    options = {"deliveryGuarantee": "exactly_once", "progressPath": tmp_path / "progress"}
    checkpoint = tmp_path / "checkpoint"
    stream_into(spark, cluster, "exact-in", "exact", checkpoint, **options)
    assert bodies(spark, cluster.namesrv, "exact") == Counter(range(60))
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink()
    stream_into(spark, cluster, "exact-in", "exact", checkpoint, lambda rows: rows.repartition(3, "body"), **options)
    assert bodies(spark, cluster.namesrv, "exact") == Counter(range(60))
    first, second, again = map(json.loads, (tmp_path / "progress").read_text().splitlines())
    assert [line["batchId"] for line in (first, second, again)] == [0, 1, 1]
    assert (second["messages"], second["replayed"]) == (again["messages"], 0) == (20, 0)
    assert (again["rows"], again["replayed"], again["tasks"]) == (20, 20, 3)


def test_a_named_batch_write_is_stored_once_however_often_it_is_done(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    make_topic(cluster.namesrv, "named")
    rows = spark.range(3000, numPartitions=2).selectExpr("cast(id as string) as body")
    writer = rows.write.format("rocketmq").option("namesrvAddr", cluster.namesrv).option("topic", "named")
    writer = writer.option("deliveryGuarantee", "effectively_once").option("producerId", "job").mode("append")
    for _ in range(2):
        writer.option("batchId", "1").save()
    assert bodies(spark, cluster.namesrv, "named") == Counter(range(3000))
    writer.option("batchId", "2").save()
    assert set(bodies(spark, cluster.namesrv, "named").values()) == {2}
    keys = {row["keys"] for row in read(spark, cluster.namesrv, "named").collect()}
    assert len(keys) == 6000 and "job/1/0/0" in keys


def test_what_cannot_be_written_fails_with_words_for_people(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    rows = spark.range(10, numPartitions=1).selectExpr("if(id = 7, null, cast(id as string)) as body")

    def write(frame: DataFrame, mode: str = "append", **options: str) -> None:
        given = {"namesrvAddr": cluster.namesrv, "topic": "words"} | options
        frame.write.format("rocketmq").options(**given).mode(mode).save()

    with pytest.raises(Exception, match=r"/0/0/7 .*makes no message: the body is null or empty.*Cure: .*onInvalidRow"):
        write(rows)
    with pytest.raises(Exception, match=r"column 'id' is not known.*to_json"):
        write(spark.range(1).selectExpr("id", "'x' as body"))
    with pytest.raises(Exception, match="has no name, so nobody could end it after a crash"):
        write(rows, deliveryGuarantee="exactly_once")
    with pytest.raises(Exception, match="a topic cannot be overwritten"):
        write(rows, mode="overwrite")
    with pytest.raises(Exception, match="no route for topic 'none-such'"):
        write(rows, topic="none-such", deliveryGuarantee="effectively_once")
    write(rows, topic="rest", onInvalidRow="dlq")
    assert sorted(bodies(spark, cluster.namesrv, "rest")) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    (dead,) = read(spark, cluster.namesrv, "rest__dlq").collect()
    assert (dead.body, dead.properties["RL_REASON"], dead.properties["RL_TOPIC"]) == (b"-", "NO_BODY", "rest")
    assert dead.properties["RL_POSITION"].endswith("/0/0/7")


@pytest.mark.interop
def test_apaches_broker_stores_both_kinds_unharmed(apache_jars: None, spark: SparkSession, tmp_path: Path) -> None:
    with apache_cluster(tmp_path / "apache") as apache:
        make_topic(apache.namesrv, "once")
        rows = spark.range(3000, numPartitions=2).selectExpr("cast(id as string) as body", "'k' as keys")
        writer = rows.write.format("rocketmq").option("namesrvAddr", apache.namesrv).mode("append")
        writer.option("topic", "AtLeastOnce").save()
        stored = all_rows(spark, apache.namesrv, "AtLeastOnce", 3000)
        assert Counter(int(row.body) for row in stored) == Counter(range(3000))
        writer = writer.option("topic", "once").option("deliveryGuarantee", "effectively_once")
        for _ in range(2):
            writer.option("producerId", "job").option("batchId", "1").save()
        stored = all_rows(spark, apache.namesrv, "once", 6000)
        assert len(stored) == 6000, "Apache's broker does not know the mark"
        for unique in ("keys", "msgId"):
            assert len({(row[unique], row.body) for row in stored}) == len({row[unique] for row in stored}) == 3000
