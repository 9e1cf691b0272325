"""format("rocketmq") in a real Spark against a real cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.groups import ClusterGroups
from rocketlake.cli.tree import app
from rocketlake.spark.schema import COLUMNS, CORE
from rocketlake.testing.cluster import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster"), settings={"enablePropertyFilter": "true"}) as cluster:
        yield cluster


class Query:
    """A stream of one topic into a Parquet table, run with availableNow."""

    def __init__(self, spark: SparkSession, cluster: EmbeddedCluster, topic: str, folder: Path, **options: Any) -> None:
        self._spark = spark
        self._folder = folder
        reader = spark.readStream.format("rocketmq").option("namesrvAddr", cluster.namesrv).option("subscribe", topic)
        for name, value in options.items():
            reader = reader.option(name, value)
        self.messages = reader.load()

    def run(self, fail: bool = False) -> None:
        def refuse(*_: object) -> None:
            raise RuntimeError("stopped in this batch")

        writer = self.messages.writeStream.option("checkpointLocation", str(self._folder / "checkpoint"))
        writer = writer.trigger(availableNow=True)
        if fail:
            with pytest.raises(Exception, match="stopped in this batch"):
                writer.foreachBatch(refuse).start().awaitTermination(60)
        else:
            writer.format("parquet").option("path", str(self._folder / "table")).start().awaitTermination(60)

    def bodies(self) -> list[str]:
        if not (self._folder / "table").exists():
            return []
        return sorted(row.body.decode() for row in self._spark.read.parquet(str(self._folder / "table")).collect())


def batch(spark: SparkSession, cluster: EmbeddedCluster, topic: str, **options: Any) -> DataFrame:
    reader = spark.read.format("rocketmq").option("namesrvAddr", cluster.namesrv).option("subscribe", topic)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


@pytest.mark.smoke
def test_a_batch_read_gives_every_message_once_with_all_columns(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    cluster.send("all", (b"%d" % n for n in range(100)), tags="A")
    frame = batch(spark, cluster, "all")
    assert frame.columns == list(COLUMNS)
    rows = frame.collect()
    assert sorted(int(row.body) for row in rows) == [*range(100)]
    assert len({(row.queueId, row.queueOffset) for row in rows}) == 100
    (row,) = (row for row in rows if row.body == b"0")
    assert (row.topic, row.brokerName, row.tags) == ("all", "broker-a", "A")
    assert row.properties["TAGS"] == "A"
    assert row.properties["UNIQ_KEY"] == row.msgId
    assert row.storeTimestamp >= row.bornTimestamp.replace(microsecond=0)
    assert row.storeHost == cluster.standalone.broker_address


@pytest.mark.smoke
def test_a_batch_read_may_be_bounded_filtered_split_and_pruned(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    cluster.send("some", [b"0", b"1", b"2", b"3"], tags="A", queue=0)
    cluster.send("some", [b"4", b"5"], tags="B", queue=0)
    ends = '{"some": {"broker-a": {"0": 5, "1": -1, "2": -1, "3": -1}}}'
    starts = '{"some": {"broker-a": {"0": 2, "1": 0, "2": 0, "3": 0}}}'
    bounded = batch(spark, cluster, "some", startingOffsets=starts, endingOffsets=ends, maxRecordsPerPartition=2)
    assert sorted(row.body for row in bounded.collect()) == [b"2", b"3", b"4"]
    assert bounded.rdd.getNumPartitions() == 2
    assert [row.body for row in batch(spark, cluster, "some", tags="B").orderBy("queueOffset").collect()] == [
        b"4",
        b"5",
    ]
    pruned = (
        spark.read.format("rocketmq")
        .schema("body binary, queueOffset bigint")
        .option("namesrvAddr", cluster.namesrv)
        .option("subscribe", "some")
        .load()
    )
    assert sorted((row.queueOffset, row.body) for row in pruned.collect())[:2] == [(0, b"0"), (1, b"1")]


def test_sql92_is_decided_by_the_broker_for_tables_and_streams(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    for tag in "AB":
        cluster.send("by-sql", (b"%s%d" % (tag.encode(), n) for n in range(30)), tags=tag)
    chosen = {"filter.sql92": "TAGS BETWEEN 1 AND 2 OR TAGS = 'B'"}
    bodies = sorted(f"B{n}" for n in range(30))
    assert batch(spark, cluster, "by-sql", **chosen).count() == 0  # a tag that is no number ends the expression
    chosen = {"filter.sql92": "TAGS = 'B' AND UNIQ_KEY IS NOT NULL"}
    assert sorted(row.body.decode() for row in batch(spark, cluster, "by-sql", **chosen).collect()) == bodies
    query = Query(spark, cluster, "by-sql", tmp_path, startingOffsets="earliest", **chosen)
    query.run()
    assert query.bodies() == bodies
    cluster.send("by-sql", [b"C"], tags="C")
    cluster.send("by-sql", [b"B9999"], tags="B")
    query.run()
    assert query.bodies() == sorted([*bodies, "B9999"])


@pytest.mark.smoke
def test_an_empty_topic_is_an_empty_table(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    cluster.send("empty", [b"x"])
    ends = '{"empty": {"broker-a": {"0": 0, "1": 0, "2": 0, "3": 0}}}'
    assert batch(spark, cluster, "empty", endingOffsets=ends).collect() == []


@pytest.mark.smoke
def test_a_wrong_option_is_named_to_the_user(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    with pytest.raises(Exception, match=r"(?i)maxOffsetPerTrigger.*did you mean 'maxOffsetsPerTrigger'"):
        batch(spark, cluster, "all", maxOffsetPerTrigger=5)


def test_sql_knows_the_format(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    cluster.send("sql", [b"a", b"b"])
    options = f"OPTIONS (namesrvAddr '{cluster.namesrv}', subscribe 'sql')"
    spark.sql(f"CREATE TEMPORARY VIEW orders USING rocketmq {options}")
    assert spark.sql("SELECT count(*) AS n FROM orders").first().n == 2


@pytest.mark.smoke
def test_a_stream_goes_on_where_it_was(spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    cluster.send("more", [b"%02d" % n for n in range(30)])
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 10, "consumerGroup": "more-group"}
    Query(spark, cluster, "more", tmp_path, **options).run()
    cluster.send("more", [b"%02d" % n for n in range(30, 40)])
    query = Query(spark, cluster, "more", tmp_path, **options)
    query.run()
    assert query.bodies() == [f"{n:02d}" for n in range(40)]


@pytest.mark.parametrize("place", ["consumerGroup", "offsetStore"])
def test_a_stream_from_latest_stopped_in_batch_0_loses_nothing(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path, place: str
) -> None:
    topic = f"late-{place}"
    cluster.send(topic, [b"before"])
    value = "late-group" if place == "consumerGroup" else f"file://{tmp_path}/checkpoint/rocketmq"
    options = {"startingOffsets": "latest", place: value}
    query = Query(spark, cluster, topic, tmp_path, **options)
    query.run()
    assert query.bodies() == []
    cluster.send(topic, [b"1", b"2"])
    query.run(fail=True)
    cluster.send(topic, [b"3"])
    query.run()
    assert query.bodies() == ["1", "2", "3"]
    cluster.send(topic, [b"4"])
    query.run()
    assert query.bodies() == ["1", "2", "3", "4"]


def test_a_stream_outlives_a_restart_of_the_broker(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path / "cluster") as cluster:
        cluster.send("restart", [b"%02d" % n for n in range(10)])
        query = Query(spark, cluster, "restart", tmp_path, startingOffsets="earliest")
        query.run()
        cluster.stop()
        cluster.start()
        cluster.send("restart", [b"%02d" % n for n in range(10, 20)])
        query.run()
        assert query.bodies() == [f"{n:02d}" for n in range(20)]


def test_a_running_stream_outlives_restarts_of_the_broker_and_writes_each_message_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    with EmbeddedCluster(tmp_path / "cluster") as cluster:
        cluster.send("live", [b"0000"])
        options = {"startingOffsets": "earliest", "fetchOffset.numRetries": 40, "fetchOffset.retryIntervalMs": 250}
        stream = Query(spark, cluster, "live", tmp_path, **options)
        writer = stream.messages.writeStream.format("parquet").option("path", str(tmp_path / "table"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            query.processAllAvailable()  # it runs: a start without a route is refused
            for part in range(3):
                cluster.send("live", (b"%04d" % n for n in range(1 + part * 200, 1 + (part + 1) * 200)))
                cluster.stop()
                cluster.start()
            query.processAllAvailable()
        finally:
            query.stop()
        assert stream.bodies() == [f"{n:04d}" for n in range(601)]


def test_a_topic_made_anew_stops_the_stream_with_what_is_wanted_and_what_there_is(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster.send("anew", [b"x"] * 5, queue=0)
    query = Query(spark, cluster, "anew", tmp_path, startingOffsets="earliest")
    query.run()

    async def make_anew() -> None:
        async with Cluster(cluster.namesrv) as admin:
            await admin.delete_topic("anew")

    cluster.run(make_anew())
    cluster.send("anew", [b"y"], queue=0)
    with pytest.raises(Exception, match=r"messages are gone: .*topic anew, broker broker-a, queue 0"):
        query.run()
    repair = ["spark", "offsets", "set", str(tmp_path / "checkpoint"), "--yes"]
    where = ["--topic", "anew", "--broker", "broker-a", "--queue", "0", "--offset", "0"]
    done = CliRunner().invoke(app, [*repair, *where])
    assert "next offset 0, was 5" in done.output
    query.run()
    assert query.bodies() == [*"xxxxxy"]


def test_filters_give_the_same_rows_with_push_down_on_off_and_unset(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    for number, topic in ((0, "push-a"), (1, "push-b")):
        cluster.send(topic, [b"%d" % n for n in range(8)], tags="A", queue=number)
        cluster.send(topic, [b"%d" % n for n in range(8, 12)], tags="B", queue=number)
    everything = batch(spark, cluster, "push-a,push-b").collect()
    (middle,) = (row.storeTimestamp for row in everything if row.topic == "push-a" and row.queueOffset == 4)
    conditions: dict[str, Callable[[Any], bool]] = {
        "topic = 'push-a' AND queueOffset BETWEEN 2 AND 4": lambda r: r.topic == "push-a" and 2 <= r.queueOffset <= 4,
        "queueId = 1 AND tags IN ('B', 'C')": lambda r: r.queueId == 1 and r.tags in ("B", "C"),
        "brokerName = 'broker-b'": lambda r: r.brokerName == "broker-b",
        f"storeTimestamp >= '{middle}' AND queueOffset < 8": lambda r: r.storeTimestamp >= middle and r.queueOffset < 8,
        "queueOffset IN (1, 2, 11) OR tags = 'B'": lambda r: r.queueOffset in (1, 2, 11) or r.tags == "B",
    }
    name = "spark.sql.python.filterPushdown.enabled"
    tasks: list[int] = []
    for switch in ("true", "false", ""):
        spark.conf.unset(name)
        if switch:
            spark.conf.set(name, switch)
        reused = batch(spark, cluster, "push-a,push-b")
        for condition, holds in conditions.items() if switch == "true" else [*conditions.items()][-2:]:
            once = batch(spark, cluster, "push-a,push-b", pushDown="true")
            found = once.where(condition).select("topic", "queueId", "queueOffset").collect()
            expected = [(row.topic, row.queueId, row.queueOffset) for row in everything if holds(row)]
            assert sorted(map(tuple, found)) == sorted(expected), f"{condition}, push-down {switch!r}"
            if switch == "true":
                assert reused.where(condition).count() == len(expected), f"{condition}, DataFrame used again"
        once = batch(spark, cluster, "push-a,push-b", pushDown="true", maxBytesPerPartition="1m")  # a task a queue
        tasks.append(once.where("topic = 'push-a'").rdd.getNumPartitions())
    spark.conf.unset(name)
    assert tasks == [1, 2, 2]


def test_a_table_is_made_in_sql_and_takes_conditions(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    cluster.send("table", [b"a", b"b"], tags="A")
    options = f"OPTIONS (namesrvAddr '{cluster.namesrv}', subscribe 'table', columns 'core')"
    spark.sql(f"CREATE TABLE orders_table USING rocketmq {options}")
    try:
        rows = spark.sql("SELECT * FROM orders_table WHERE tags = 'A' ORDER BY body").collect()
        assert [bytes(row.body) for row in rows] == [b"a", b"b"]
        assert tuple(rows[0].asDict()) == CORE
    finally:
        spark.sql("DROP TABLE orders_table")


def test_a_bounded_replay_of_a_pattern_ends_where_it_should_with_lag_0(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster.send("day-1", [b"%d" % n for n in range(300)])
    cluster.send("day-2", [b"%d" % n for n in range(300, 600)])
    end_ms = int(time.time() * 1000) + 1
    while time.time() * 1000 <= end_ms:
        pass
    cluster.send("day-2", [b"too late"])
    reader = spark.readStream.format("rocketmq").option("namesrvAddr", cluster.namesrv)
    reader = reader.option("subscribePattern", "day-[0-9]").option("startingOffsets", "earliest")
    reader = reader.option("endingTimestamp", end_ms).option("maxBytesPerTrigger", "30k")
    writer = reader.option("consumerGroup", "replay-group").load().writeStream.format("parquet")
    writer = writer.option("path", str(tmp_path / "table")).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(60)
    table = spark.read.parquet(str(tmp_path / "table"))
    assert sorted(int(row.body) for row in table.select("body").collect()) == [*range(600)]
    assert len([each for each in query.recentProgress if each.numInputRows]) >= 3

    async def lag() -> int:
        async with Cluster(cluster.namesrv) as admin:
            offsets = await ClusterGroups(admin).offsets("replay-group")
            return sum(each.broker_offset - each.consumer_offset for each in offsets.values())

    assert cluster.run(lag()) == 1  # the message that came too late
