"""Every message of the stream is in the table once, however often a step is called and wherever a process is killed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from rocketlake.spark.lake.tables.parquet_table import ParquetTable
from tests.unit.spark.lake.conftest import Query, message, places, table_rows

FORMATS = ["parquet", "delta", "iceberg"]
POINTS = [
    "",
    "lake.mid_write",
    "lake.after_write",
    "lake.before_commit",
    "lake.after_entry",
    "lake.mid_moves",
    "lake.between_tables",
    "lake.after_commit",
]
SEEDS = int(os.environ.get("ROCKETLAKE_LAKE_SEEDS", "6"))
"""Histories per crash point; an eighth of it (one at least) for Delta and Iceberg. Nightly: thousands."""


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_stream_becomes_a_table(tmp_path: Path, table_format: str) -> None:
    query = Query(tmp_path / "orders", tableFormat=table_format)
    sent = [message(offset, queue=queue) for queue in range(2) for offset in range(30)]
    query.run(sent[:20], sent[20:40])
    query.run(sent[40:], [])
    rows = table_rows(tmp_path / "orders")
    assert places(rows) == places(sent)
    row = next(row for row in rows if (row["queueId"], row["queueOffset"]) == (0, 3))
    assert {name: row[name] for name in sent[3]} == sent[3]
    assert str(row["storeDay"]) == "2026-11-21"


def _stream(rng: random.Random) -> list[list[list[dict[str, object]]]]:
    """Batches of tasks of messages; some bodies are no JSON."""
    offsets = [0, 0, 0]
    batches = []
    for _ in range(rng.randrange(2, 5)):
        tasks = []
        for queue in range(rng.randrange(1, 4)):
            count = rng.randrange(0, 12)
            rows = [
                message(
                    offsets[queue] + number,
                    queue=queue,
                    topic=rng.choice(["orders", "payments"]),
                    tags=rng.choice(["A", "b/ c", None, ""]),
                    body=rng.choice([b'{"id": 1}', b'{"id": 2, "name": "x"}', b'{"id": "wrong"}', b"{", None]),
                )
                for number in range(count)
            ]
            offsets[queue] += count
            tasks.append(rows)
        batches.append(tasks)
    return batches


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("point", POINTS)
def test_whatever_spark_calls_and_wherever_it_is_killed(memory_path: Path, table_format: str, point: str) -> None:
    for seed in range(SEEDS if table_format == "parquet" else max(1, SEEDS // 8)):
        rng = random.Random(f"{seed} {point} {table_format}")
        layout = rng.choice(["single", "topic"])
        root = memory_path / f"{seed}"
        query = Query(
            root,
            tableFormat=table_format,
            tableLayout=layout,
            bodyFormat="json",
            bodySchema="id bigint, name string",
            partitionBy=rng.choice(["storeDay", "storeDay,tags", "none"]),
        )
        sent = []
        batches = _stream(rng)
        crash_at = rng.randrange(len(batches))
        for number, tasks in enumerate(batches):
            query.run_with_trouble(tasks, rng, crash=point if number == crash_at else "")
            sent += [row for task in tasks for row in task]
        good = [row for row in sent if row["body"] in (b'{"id": 1}', b'{"id": 2, "name": "x"}')]
        bad = [row for row in sent if row not in good]
        names = [""] if layout == "single" else ["/orders", "/payments"]
        rows = [row for name in names for row in table_rows(Path(f"{root}{name}"))]
        dead = [row for name in names for row in table_rows(Path(f"{root}{name}__dlq"))]
        assert places(rows) == places(good), seed
        assert places(dead) == places(bad), seed
        assert all(row["dlqReason"] for row in dead)
        if table_format == "parquet":
            assert sum(_listed(Path(f"{root}{name}")) for name in names) == len(good), seed


def _listed(folder: Path) -> int:
    """Rows for one who lists the folder and knows nothing of us; what a kill left unmoved is not there yet."""
    if not folder.exists():
        return 0
    ParquetTable(folder).recover()
    return int(ds.dataset(folder).count_rows())
