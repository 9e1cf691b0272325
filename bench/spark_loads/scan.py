"""Store files -> rows, without a broker: the whole table, at both sizes, and what one key and one queue cost."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.plan import Figure, Values
from bench.process import cpu_seconds, family
from bench.spark_loads.plan import BODY_BYTES, COLUMNS, SparkLoad, SparkPlan
from bench.spark_loads.prebuilt import register
from bench.spark_loads.session import local_spark, spark_cpu_seconds
from bench.spark_loads.store_files import TOPIC, write_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["LOADS"]

SMALL_BODY_BYTES = 100


def run(root: Path, plan: SparkPlan) -> Values:
    """Rows a second of full scans to noop, best of the rounds, with the CPU of JVM and Python a row."""
    spark = local_spark(root, **{"spark.sql.python.filterPushdown.enabled": "true"})
    register(spark)
    values: Values = {}
    for name, body_bytes, rows in (("", BODY_BYTES, plan.rows), ("_small", SMALL_BODY_BYTES, plan.small_rows)):
        store = root / f"store{name}"
        values[f"store_mb{name}"] = write_store(store, body_bytes=body_bytes, rows=rows) / 1e6
        ceiling = spark.read.format("prebuilt_rows").options(rows=rows, bodyBytes=body_bytes).load()
        scan = spark.read.format("rocketmq_store").option("columns", COLUMNS).load(str(store))
        for kind, frame in (("ceiling", ceiling), ("scan", scan)):
            rounds = [_measure(frame, rows) for _ in range(plan.rounds + 1)]
            best = min(rounds, key=lambda each: each["seconds"])
            values[f"{kind}_rows_s{name}"] = rows / best["seconds"]
            values[f"{kind}_jvm_us{name}"] = best["jvm"] / rows * 1e6
            values[f"{kind}_python_us{name}"] = best["python"] / rows * 1e6
        started = time.perf_counter()
        pushed = spark.read.format("rocketmq_store").option("pushDown", "true").load(str(store))
        assert pushed.filter(f"topic = '{TOPIC}' and queueId = 1 and queueOffset < 100").count() == 100
        values[f"slice_ms{name}"] = (time.perf_counter() - started) * 1000
    spark.stop()
    return values


def _measure(frame: DataFrame, rows: int) -> dict[str, float]:
    before, python_before, started = spark_cpu_seconds(), _python_cpu_seconds(), time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - started
    python = _python_cpu_seconds() - python_before
    return {"seconds": seconds, "python": python, "jvm": spark_cpu_seconds() - before - python}


def _python_cpu_seconds() -> float:
    """CPU of the Python workers, which end and begin between reads."""
    total = 0.0
    for pid in family(os.getpid()):
        try:
            if "python" in Path(f"/proc/{pid}/comm").read_text():
                total += cpu_seconds(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended just now
    return total


LOADS = (
    SparkLoad(
        "scan",
        "store scan to noop, local[2]",
        (
            Figure("scan_rows_s", "scan, 1 KiB bodies: rows/s", 280_000, 415_000, limits_of="ours"),
            Figure("scan_rows_s_small", "scan, 100 B bodies: rows/s", 500_000, 725_000, limits_of="ours"),
            *(
                Figure(f"{kind}_{what}{size}", f"{kind}, {title}, {bodies}", better="lower")
                for size, bodies in (("", "1 KiB"), ("_small", "100 B"))
                for kind in ("ceiling", "scan")
                for what, title in (("jvm_us", "CPU of the JVM, us/row"), ("python_us", "CPU of Python, us/row"))
            ),
            Figure("ceiling_rows_s", "the same rows prebuilt, 1 KiB: rows/s"),
            Figure("ceiling_rows_s_small", "the same rows prebuilt, 100 B: rows/s"),
            Figure("slice_ms", "100 rows of one queue out of all, ms", better="lower"),
        ),
        run,
    ),
)
