"""Every kind of bad message between good ones (poison.py): Spark reads the good ones, in order, counts the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketlake.spark.pipeline.environment import Environment
from rocketlake.spark.pipeline.read import read_pipeline
from rocketlake.spark.pipeline.runner import PipelineRun
from rocketlake.testing.cluster import EmbeddedCluster
from tests.poison import Fate
from tests.poisoned import QUEUE, TOPIC, PoisonedQueue, only_good


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def world(cluster: EmbeddedCluster) -> PoisonedQueue:
    world = PoisonedQueue(cluster.namesrv, cluster.root / "store")
    cluster.run(world.fill())
    world.rot()
    return world


def bodies(rows: DataFrame) -> list[bytes]:
    found = rows.where(f"queueId = {QUEUE} and body is not null").orderBy("queueOffset").select("body").collect()
    return [bytes(row.body) for row in found if row.body != b"first"]


def all_is_read(world: PoisonedQueue, found: list[bytes]) -> None:
    assert only_good(found) == world.good
    assert [body for body in found if not body.startswith(b"good ")] == world.odd_bodies


def counted(spark: SparkSession, losses: Path) -> int:
    rows = spark.read.json(str(losses))
    assert rows.where("reason is null").count() == 0
    return int(rows.selectExpr("sum(messages)").first()[0])


def options(world: PoisonedQueue, losses: Path) -> dict[str, Any]:
    return {"namesrvAddr": world.namesrv, "subscribe": TOPIC, "failOnDataLoss": "false", "lossTable": str(losses)}


def test_a_batch_read_a_stream_into_the_lake_and_a_scan(
    spark: SparkSession, cluster: EmbeddedCluster, world: PoisonedQueue, tmp_path: Path
) -> None:
    bad = len(world.of(Fate.DAMAGED)) + len(world.of(Fate.ROTTEN))
    batch = spark.read.format("rocketmq").options(**options(world, tmp_path / "batch")).load()
    all_is_read(world, bodies(batch))
    assert counted(spark, tmp_path / "batch") == bad

    lake_of_a_pipeline(spark, world, tmp_path)
    all_is_read(world, bodies(spark.read.parquet(str(tmp_path / "lake"))))
    assert counted(spark, tmp_path / "stream") == bad

    cluster.run(queue_files_written(cluster))
    scan = spark.read.format("rocketmq_store").load(str(cluster.root / "store")).where(f"topic = '{TOPIC}'")
    assert only_good(bodies(scan)) == world.good


async def queue_files_written(cluster: EmbeddedCluster) -> None:
    """A scan ends at a bad body behind all that is in the queue files, as a recovery does: the rest may be torn."""
    cluster.standalone.broker.store.queues.flush()


def lake_of_a_pipeline(spark: SparkSession, world: PoisonedQueue, folder: Path) -> None:
    source = "".join(f"  {name}: {value!r}\n" for name, value in options(world, folder / "stream").items())
    path = folder / "poisoned.yaml"
    path.write_text(
        f"source:\n{source}  startingOffsets: earliest\n  maxOffsetsPerTrigger: 100\n"
        f"sink: {{format: rocketmq_lake, path: {folder / 'lake'}}}\n"
    )
    run = PipelineRun(spark, read_pipeline(path), Environment())
    run.start(once=True)
    run.wait()


def test_without_leave_to_skip_the_error_names_the_place(spark: SparkSession, world: PoisonedQueue) -> None:
    asked = {"namesrvAddr": world.namesrv, "subscribe": TOPIC}
    with pytest.raises(
        Exception, match=rf"message at offset \d+ of topic {TOPIC}, broker .*, queue {QUEUE} is damaged"
    ):
        spark.read.format("rocketmq").options(**asked).load().selectExpr("max(length(body))").collect()
