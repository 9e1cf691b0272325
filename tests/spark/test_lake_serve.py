"""Topics kept as tables by `rocketlake lake serve`: many in one application, one setting each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession

from rocketlake.admin.sync import Admin
from rocketlake.cli.tree import app
from rocketlake.spark.lake.description import Descriptions
from rocketlake.spark.lake.tables.open_table import open_table
from rocketlake.spark.pipeline.serving.lags import TableLags
from rocketlake.spark.pipeline.serving.looks import look
from rocketlake.spark.pipeline.serving.plan import CHECKPOINTS, ServePlan
from rocketlake.spark.pipeline.serving.supervisor import LakeServer
from rocketlake.spark.pipeline.serving.wanted import Listed, listed_words
from rocketlake.testing.cluster import EmbeddedCluster
from tests.crash.spark_kills import table_rows

LIMIT_SECONDS = 400


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def alter(cluster: EmbeddedCluster, topic: str, *words: str) -> None:
    """As a user types it."""
    app(["topic", "alter", topic, *words, "-n", cluster.namesrv], standalone_mode=False)


class Served:
    """A service in this process, step by step, and what it said."""

    def __init__(self, spark: SparkSession, cluster: EmbeddedCluster, folder: Path, listed: Listed, **plan: float):
        self.folder = folder
        self.said: list[str] = []
        self.lags = TableLags(metrics_port=0)
        settings = ServePlan(cluster.namesrv, str(folder), f"{folder}/{CHECKPOINTS}", every_seconds=0.5, **plan)  # type: ignore[arg-type]
        self.server = LakeServer(
            spark, settings, lambda: look(cluster.namesrv, listed), lags=self.lags, say=self.said.append
        )

    def until(self, is_so: Callable[[], bool]) -> None:
        """Serve until it is so."""
        limit = time.monotonic() + LIMIT_SECONDS
        while not is_so():
            assert time.monotonic() < limit, (self.said[-5:], self.lags.lags())
            self.server.step(time.monotonic())
            Event().wait(0.05)

    def bodies(self, topic: str) -> list[bytes]:
        """Of all rows of the topic's table, sorted; one that is there twice comes twice."""
        path = self.folder / topic
        description = Descriptions(path).latest()
        return sorted(body for _, body in table_rows(path, description.table_format)) if description else []

    def shows(self, topic: str, bodies: list[bytes]) -> Callable[[], bool]:
        """True when a plain reader sees these rows: it lists the folder of a Parquet table, whose files move behind the
        commit and are replaced by upkeep."""

        def is_so() -> bool:
            try:
                return self.bodies(topic) == bodies
            except FileNotFoundError:
                return False

        return is_so

    def has(self, topic: str, count: int) -> Callable[[], bool]:
        """True when the table has so many rows."""
        path = self.folder / topic

        def is_so() -> bool:
            description = Descriptions(path).latest()
            return description is not None and count == sum(
                file.rows for file in open_table(path, description.table_format).files()
            )

        return is_so


@contextmanager
def served(spark: SparkSession, cluster: EmbeddedCluster, folder: Path, *words: str, **plan: float) -> Iterator[Served]:
    """A service that serves topics by their attributes, and these."""
    service = Served(spark, cluster, folder, listed_words(words, {}), **plan)
    spark.streams.addListener(service.lags)
    try:
        with service.lags, closing(service.server):
            yield service
    finally:
        spark.streams.removeListener(service.lags)


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%05d" % number for number in range(first, end)]


@pytest.mark.smoke
def test_two_topics_become_tables_by_one_setting(spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    for topic in ("orders", "clicks", "plain"):
        cluster.send(topic, numbered(0, 20))
    alter(cluster, "orders", "--lake", "parquet")
    alter(cluster, "clicks", "--lake", "delta")
    with served(spark, cluster, tmp_path) as service:
        service.until(lambda: service.has("orders", 20)() and service.has("clicks", 20)())
        service.until(service.shows("orders", numbered(0, 20)))
        service.until(service.shows("clicks", numbered(0, 20)))
        assert sorted(service.lags.lags()) == ["clicks", "orders"]
    assert not (tmp_path / "plain").exists()
    alter(cluster, "orders", "--lake", "off")
    alter(cluster, "clicks", "--lake", "off")


def test_topics_come_and_go_while_it_runs(spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    cluster.send("first", numbered(0, 10))
    alter(cluster, "first", "--lake", "parquet")
    with served(spark, cluster, tmp_path) as service:
        service.until(service.has("first", 10))
        with Admin(namesrv=cluster.namesrv) as admin:
            admin.create_topic("second", attributes="+lake.format=delta,+lake.body=json")
        cluster.send("second", [b'{"id": 1}', b"no json", b'{"id": 2}'])
        service.until(service.has("second", 2))
        alter(cluster, "first", "--lake", "off")
        service.until(lambda: sorted(service.lags.lags()) == ["second"])
        cluster.send("first", numbered(10, 20))
        cluster.send("second", [b'{"id": 3}'])
        service.until(service.has("second", 3))
        service.until(service.shows("first", numbered(0, 10)))
        assert service.has("second__dlq", 1)()
        alter(cluster, "first", "--lake", "parquet")
        service.until(service.has("first", 20))
        service.until(service.shows("first", numbered(0, 20)))
        # A setting that changes while it runs is followed, too.
        alter(cluster, "first", "-a", "+lake.keep.days=3650")
        cluster.send("first", numbered(20, 30))
        service.until(service.has("first", 30))
        assert "not served any more; its table stays" in "\n".join(service.said)
    alter(cluster, "first", "--lake", "off")
    alter(cluster, "second", "--lake", "off")


def test_a_topic_that_fails_is_tried_again_and_stops_no_other(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster.send("good", numbered(0, 5))
    cluster.send("bad", numbered(0, 5))
    (tmp_path / "bad").write_text("a file where the table should be")
    with served(spark, cluster, tmp_path, "good=parquet", "bad=parquet") as service:
        service.until(lambda: service.server.failed().get("bad", 0) >= 2 and service.has("good", 5)())
        cluster.send("good", numbered(5, 10))
        service.until(service.has("good", 10))
        lags = service.lags.lags()
        assert (lags["good"].is_active, lags["bad"].is_active) == (True, False)
        assert lags["bad"].error
        with urlopen(service.lags.metrics_address, timeout=60) as answer:
            page = answer.read().decode()
        assert 'rocketlake_query_active{query="bad"} 0.0' in page
        assert 'rocketlake_query_active{query="good"} 1.0' in page
        failures = [line for line in service.said if line.startswith("topic bad: failed")]
        assert "failed 1 times, next try in 5 s" in failures[0]
        assert "failed 2 times, next try in 10 s" in failures[1]
        (tmp_path / "bad").unlink()
        service.until(service.has("bad", 5))
        service.until(lambda: not service.server.failed())
        assert service.lags.lags()["bad"].is_active


def test_the_lag_is_told_between_turns(spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    cluster.send("behind", numbered(0, 5))
    with served(spark, cluster, tmp_path, "behind=parquet") as service:
        service.until(service.has("behind", 5))
        service.until(lambda: service.lags.lags()["behind"].rows == 5)
        (tmp_path / "behind" / "_rocketlake").rename(tmp_path / "away")
        (tmp_path / "behind" / "_rocketlake").write_text("so that no turn succeeds")
        cluster.send("behind", numbered(5, 12))
        service.until(lambda: service.lags.lags()["behind"].total_behind == 7)
        (tmp_path / "behind" / "_rocketlake").unlink()
        (tmp_path / "away").rename(tmp_path / "behind" / "_rocketlake")
        service.until(service.has("behind", 12))
        service.until(lambda: service.lags.lags()["behind"].total_behind == 0)
        service.until(service.shows("behind", numbered(0, 12)))


def test_a_restart_goes_on_and_a_lost_checkpoint_is_refused(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster.send("again", numbered(0, 5))
    with served(spark, cluster, tmp_path, "again=delta") as service:
        service.until(service.has("again", 5))
    cluster.send("again", numbered(5, 9))
    with served(spark, cluster, tmp_path, "again=delta") as service:
        service.until(service.has("again", 9))
        service.until(service.shows("again", numbered(0, 9)))
    (tmp_path / CHECKPOINTS / "again").rename(tmp_path / "elsewhere")
    with served(spark, cluster, tmp_path, "again=delta") as service:
        service.until(lambda: bool(service.server.failed()))
        assert "there is no checkpoint that says up to which message" in service.said[-1]
        service.until(service.shows("again", numbered(0, 9)))


def test_small_files_are_put_together_by_itself(spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    with served(spark, cluster, tmp_path, "small=parquet", upkeep_seconds=1.0) as service:
        for turn in range(3):
            cluster.send("small", numbered(turn * 8, turn * 8 + 8))
            service.until(service.has("small", turn * 8 + 8))
        service.until(lambda: len(open_table(tmp_path / "small", "parquet").files()) == 1)
        service.until(service.shows("small", numbered(0, 24)))
