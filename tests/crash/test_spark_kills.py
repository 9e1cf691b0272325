"""Workers, executors, Spark's driver and the broker are killed at named points while a topic streams into a lake table.

Each seed is judged on its own: rows of the table = messages of the topic, each once. More than the few seeds of CI:
`make spark-kills SEEDS=200` (20 to 40 seconds each).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.crash.spark_kills import Cluster, Plan, Spark, run_seed
from tests.s3_server import options_for, s3_server
from tests.seeds import drawn

SEEDS = int(os.environ.get("ROCKETLAKE_SPARK_KILLS", "2"))
EXECUTOR_SEEDS = max(1, SEEDS // 10)
S3_SEEDS = max(1, SEEDS // 4)
FIRST = int(os.environ.get("ROCKETLAKE_SPARK_KILLS_FROM", "0"))


World = tuple[Cluster, Spark, Path]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


def _world(cluster: Cluster, root: Path, *, clustered: bool) -> Iterator[World]:
    spark = Spark(root / "spark", clustered=clustered)
    yield cluster, spark, root
    spark.stop()


@pytest.fixture(scope="module")
def world(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from _world(cluster, tmp_path_factory.mktemp("spark-kills"), clustered=False)


@pytest.fixture(scope="module")
def clustered_world(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from _world(cluster, tmp_path_factory.mktemp("executor-kills"), clustered=True)


# Steps of four: so few seeds as CI runs see each format, and each victim.
@pytest.mark.crash
@pytest.mark.spark
@pytest.mark.parametrize("number", range(FIRST, FIRST + SEEDS))
def test_each_message_is_in_the_table_once(number: int, world: World) -> None:
    print(run_seed(Plan.of(number * 4), *world), flush=True)


@pytest.mark.crash
@pytest.mark.spark
@pytest.mark.parametrize("number", range(FIRST, FIRST + EXECUTOR_SEEDS))
def test_each_message_is_in_the_table_once_whatever_executor_dies(number: int, clustered_world: World) -> None:
    print(run_seed(Plan.of(100_000 + number, "executor"), *clustered_world), flush=True)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    with s3_server("kills") as endpoint:
        yield options_for(endpoint, tmp_path_factory.mktemp("keys"))


# Three seeds in a row are three formats; which one CI plays the commit decides. The broker's kills are above: it knows
# nothing of tables.
@pytest.mark.crash
@pytest.mark.spark
@pytest.mark.parametrize("seed", drawn("kills of Spark on S3", S3_SEEDS))
def test_each_message_is_in_the_table_on_s3_once(seed: int, world: World, bucket: Mapping[str, str]) -> None:
    print(run_seed(Plan.of(seed, ("worker", "driver")[seed % 2]), *world, bucket), flush=True)
