"""Workers, Spark's driver and the broker are killed at named points while a topic streams into a lake table.

Each seed is judged on its own: rows of the table = messages of the topic, each once. More than the few seeds of CI:
`make spark-kills SEEDS=200` (20 to 40 seconds each).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.spark_kills import Cluster, Spark, run_seed

SEEDS = int(os.environ.get("ROCKETLAKE_SPARK_KILLS", "3"))
FIRST = int(os.environ.get("ROCKETLAKE_SPARK_KILLS_FROM", "0"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Spark, Path]]:
    root = tmp_path_factory.mktemp("spark-kills")
    cluster, spark = Cluster(root), Spark(root / "spark")
    yield cluster, spark, root
    spark.stop()
    cluster.stop()


# Steps of four: so few seeds as CI runs see each format, and each victim.
@pytest.mark.crash
@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(FIRST, FIRST + SEEDS))
def test_each_message_is_in_the_table_once(number: int, world: tuple[Cluster, Spark, Path]) -> None:
    print(run_seed(number * 4, *world), flush=True)
