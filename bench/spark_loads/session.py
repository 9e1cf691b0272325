"""Owns the local Spark of a load: local[2], its log silenced, its workers able to import this project."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.process import cpu_seconds, family, memory_mb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PROJECT = Path(__file__).resolve().parents[2]


def local_spark(root: Path, *, jars: str = "", **settings: str) -> SparkSession:
    """A session as users on one machine have it; `jars` comma separated."""
    from rocketlake.spark.pipeline.session import local_session

    paths = [str(PROJECT), str(PROJECT / "src"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    own = {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": "",  # Java as it is by default: a load goes on for minutes
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    if jars:
        own["spark.jars"] = jars
    session = local_session("bench", root, master="local[2]", settings=own | settings)
    session.sparkContext.setLogLevel("OFF")
    return session


def spark_cpu_seconds() -> float:
    """CPU so far of this process, the JVM and its Python workers, which live on between batches; of no broker."""
    return _sum(cpu_seconds)


def spark_anonymous_mb() -> float:
    """Private memory of the same processes, MB: what Spark and its workers add to the machine."""
    return _sum(lambda pid: memory_mb(pid)["anonymous"])


def _sum(measure: Callable[[int], float]) -> float:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None, "no session"
    total = 0.0
    # Brokers are children of this process, too: only those of the JVM are Spark's.
    for pid in [os.getpid(), *family(gateway.proc.pid)]:
        try:
            total += measure(pid)
        except (FileNotFoundError, ProcessLookupError, KeyError):
            continue  # it ended just now
    return total


def steady_rate(query: StreamingQuery) -> float:
    """Rows a second over all full micro-batches but the first, which pays for the start."""
    batches = [each for each in query.recentProgress if each.numInputRows][1:]
    largest = max((each.numInputRows for each in batches), default=0)
    full = [each for each in batches if each.numInputRows > largest / 2]
    if not full:
        raise RuntimeError(f"too few micro-batches to measure: {[each.numInputRows for each in query.recentProgress]}")
    return float(sum(each.numInputRows for each in full) / sum(each.batchDuration for each in full) * 1000)
