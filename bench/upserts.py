"""`python -m bench.upserts`: 10 % of a million keys change, in a Delta table: RocketLake beside delta-rs's own MERGE.

By turns (A B C A B C), each round in a process of its own, the same rows, the same machine. `tasks`: as behind
`repartition(8, "id")` in a Spark with two cores, each task rewrites its bucket. `driver`: all rows come in one task,
and the driver rewrites every bucket. `merge`: deltalake's MERGE with the same rule. Seconds and CPU are those of the
one batch, with its commit; memory is what the process that commits grows by at most.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark import TaskContext
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructType

from bench.__main__ import machine, result_path
from rocketlake.spark.lake.batch_commit import commit_batch
from rocketlake.spark.lake.messages import TaskWritten
from rocketlake.spark.lake.options import LakeOptions, parse_options
from rocketlake.spark.lake.task import LakeTask
from rocketlake.spark.lake.upserts.spark_hash import buckets_of

SIDES = ("tasks", "driver", "merge")
BUCKETS = 8
CORES = 2
_BATCH_ROWS = 10_000
SCHEMA = (
    StructType()
    .add("topic", StringType())
    .add("brokerName", StringType())
    .add("queueId", IntegerType())
    .add("queueOffset", LongType())
    .add("id", LongType())
    .add("name", StringType())
    .add("price", DoubleType())
    .add("version", LongType())
)


def rows(ids: np.ndarray, version: int) -> pa.Table:
    """A change for each id, from four queues."""
    count = len(ids)
    return pa.table(
        {
            "topic": pa.repeat("orders", count),
            "brokerName": pa.repeat("broker-a", count),
            "queueId": pa.array(np.arange(count) % 4, pa.int32()),
            "queueOffset": pa.array(np.arange(count) // 4 + version * count, pa.int64()),
            "id": pa.array(ids),
            "name": pa.array([f"customer {each} of version {version}" for each in ids]),
            "price": pa.array(ids / 4.0),
            "version": pa.array(np.full(count, version)),
        }
    )


def options_of(folder: Path) -> LakeOptions:
    """As a stream would be given them."""
    given = {"path": str(folder), "tableFormat": "delta", "mergeKeys": "id", "versionColumn": "version"}
    return parse_options(given | {"mergeBuckets": str(BUCKETS)}, streaming=True)


def task(folder: Path, batch: int, partition: int, changes: pa.Table) -> TaskWritten:
    """One task of Spark's."""
    TaskContext._getOrCreate()._partitionId = partition  # type: ignore[attr-defined]
    return LakeTask(options_of(folder), SCHEMA, "bench", batch).write(iter(changes.to_batches(_BATCH_ROWS)))


def timed(folder: Path, batch: int, partition: int, changes: pa.Table) -> tuple[TaskWritten, float]:
    """The same in a process of its own, with the CPU that it took there."""
    used = _cpu()
    return task(folder, batch, partition, changes), _cpu() - used


def by_bucket(changes: pa.Table) -> Iterator[pa.Table]:
    """What Spark's repartition gives to each task; not measured on any side."""
    buckets = buckets_of([changes.column("id")], BUCKETS)
    for bucket in range(BUCKETS):
        yield changes.filter(pa.array(buckets == bucket))


def by_tasks(folder: Path, first: pa.Table, changes: pa.Table) -> Callable[[], float]:
    """Made ready; the call does the batch, and says how much CPU other processes took for it."""
    parts = list(by_bucket(changes))
    pool = ProcessPoolExecutor(CORES, multiprocessing.get_context("spawn"))
    made = [pool.submit(task, folder, 0, bucket, part) for bucket, part in enumerate(by_bucket(first))]
    commit_batch([each.result() for each in made], 0)

    def batch() -> float:
        working = [pool.submit(timed, folder, 1, bucket, part) for bucket, part in enumerate(parts)]
        done = [each.result() for each in working]
        commit_batch([written for written, _ in done], 1)
        return sum(used for _, used in done)

    return batch


def by_driver(folder: Path, first: pa.Table, changes: pa.Table) -> Callable[[], float]:
    """The same, with all rows in a task without a bucket of its own."""
    commit_batch([task(folder, 0, -1, first)], 0)

    def batch() -> float:
        commit_batch([task(folder, 1, -1, changes)], 1)
        return 0

    return batch


def by_merge(folder: Path, first: pa.Table, changes: pa.Table) -> Callable[[], float]:
    """deltalake's own, in as many files."""
    for part in by_bucket(first):
        write_deltalake(str(folder), part, mode="append")

    def batch() -> float:
        merge = DeltaTable(str(folder)).merge(changes, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all("s.version > t.version").when_not_matched_insert_all().execute()
        return 0

    return batch


def measure(side: str, keys: int, part: float) -> dict[str, Any]:
    """One round, in this process."""
    rng = np.random.default_rng(1)
    ids = rng.permutation(keys)
    first, changes = rows(ids, 1), rows(rng.permutation(ids[: int(keys * part)]), 2)
    prepare = {"tasks": by_tasks, "driver": by_driver, "merge": by_merge}[side]
    with tempfile.TemporaryDirectory(prefix="rocketlake-upserts-") as folder:
        table = Path(folder) / "t"
        batch = prepare(table, first, changes)
        del first
        pa.default_memory_pool().release_unused()
        Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
        before = _memory_mb("VmRSS")
        used, began = _cpu(), time.perf_counter()
        elsewhere = batch()
        seconds, used = time.perf_counter() - began, _cpu() - used + elsewhere
        grown = _memory_mb("VmHWM") - before
        found = DeltaTable(str(table)).to_pyarrow_dataset().to_table(columns=["id", "version"])
        right = len(found) == keys and int(np.sum(found["version"].to_numpy() == 2)) == len(changes)
        if not right or len(set(found["id"].to_pylist())) != keys:
            raise SystemExit(f"{side}: the table is not what it should be")
    return {"side": side, "seconds": seconds, "cpu_seconds": used, "grown_mb": grown}


def _memory_mb(name: str) -> float:
    (kilobytes,) = re.findall(name + r":\s*(\d+)", Path("/proc/self/status").read_text())
    return int(kilobytes) / 1024


def _cpu() -> float:
    return sum(os.times()[:2])


def main() -> None:
    """Rounds by turns, a table, and a file of results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--part", type=float, default=0.1, help="the part of the keys that change")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        print(json.dumps(measure(given.side, given.keys, given.part)))
        return
    runs: list[dict[str, Any]] = []
    words = [sys.executable, "-m", "bench.upserts", "--keys", str(given.keys), "--part", str(given.part)]
    for number in range(given.rounds):
        for side in SIDES:
            done = subprocess.run([*words, "--side", side], stdout=subprocess.PIPE, text=True, check=True)
            runs.append(json.loads(done.stdout))
            print(f"  round {number + 1} of {given.rounds}: {runs[-1]}", flush=True)
    middle = {
        (side, figure): median(run[figure] for run in runs if run["side"] == side)
        for side in SIDES
        for figure in ("seconds", "cpu_seconds", "grown_mb")
    }
    for side in SIDES:
        seconds, cpu = (
            f"{middle[side, figure]:.2f} s, {middle['merge', figure] / middle[side, figure]:.2f}x of MERGE"
            for figure in ("seconds", "cpu_seconds")
        )
        print(f"{side:>7}: {seconds}; CPU {cpu}; {middle[side, 'grown_mb']:.0f} MB more")
    path = result_path("upserts", quick=given.keys < 1_000_000)
    path.write_text(json.dumps({"machine": machine(), "keys": given.keys, "part": given.part, "runs": runs}, indent=1))
    print(path)


if __name__ == "__main__":
    main()
