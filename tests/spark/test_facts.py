"""What the source relies on in Spark, as assertions: a new Spark release that breaks one says so here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery


class Probe:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.set_available(0)

    def set_available(self, rows: int) -> None:
        (self.folder / "available").write_text(str(rows))

    def calls(self) -> list[dict[str, Any]]:
        file = self.folder / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def forget_calls(self) -> None:
        (self.folder / "calls").unlink()

    def start(self, *, write: Callable[[Any, int], None] | None = None, **options: Any) -> StreamingQuery:
        reader = self.spark.readStream.format("probe").option("folder", str(self.folder))
        for name, value in options.items():
            reader = reader.option(name, value)
        writer = reader.load().writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
        writer = writer.trigger(availableNow=True)
        return (writer.foreachBatch(write) if write else writer.format("noop")).start()

    def run(self, **options: Any) -> None:
        query = self.start(**options)
        query.awaitTermination(60)
        assert not query.isActive


@pytest.fixture
def probe(spark: SparkSession, tmp_path: Path) -> Probe:
    return Probe(spark, tmp_path)


def test_a_package_named_pyspark_something_is_a_format_without_registration(probe: Probe) -> None:
    probe.set_available(3)
    rows: list[int] = []
    probe.run(write=lambda frame, _: rows.extend(row.n for row in frame.collect()))
    assert sorted(rows) == [0, 1, 2]


def test_an_arrow_batch_of_another_type_is_refused(probe: Probe) -> None:
    probe.set_available(3)
    with pytest.raises(Exception, match="DATA_SOURCE_RETURN_SCHEMA_MISMATCH"):
        probe.run(schema="wrong")


def test_first_offsets_are_asked_twice_in_one_process_and_never_again_after_batch_0(probe: Probe) -> None:
    probe.set_available(5)
    probe.run()
    first = [call for call in probe.calls() if call["call"] == "initialOffset"]
    assert len(first) == 2
    assert len({call["pid"] for call in first}) == 1
    probe.forget_calls()
    probe.set_available(9)
    probe.run()
    assert "initialOffset" not in [call["call"] for call in probe.calls()]


def test_first_offsets_are_not_stored_by_spark_before_batch_0_is_done(probe: Probe) -> None:
    """Why start_store.py exists. If this fails one day, Spark stores them and the file can go."""
    probe.set_available(5)

    def fail(*_: object) -> None:
        raise RuntimeError("stopped in batch 0")

    with pytest.raises(Exception, match="stopped in batch 0"):
        probe.run(write=fail, initial=0)
    probe.forget_calls()
    probe.run(initial=3)
    planned = [call for call in probe.calls() if call["call"] == "partitions"]
    assert [(call["start"], call["end"]) for call in planned] == [(3, 5)]


def test_a_batch_that_failed_is_planned_again_with_the_same_offsets_before_anything_new(probe: Probe) -> None:
    probe.set_available(5)
    probe.run()
    probe.set_available(8)

    def fail(*_: object) -> None:
        raise RuntimeError("stopped in batch 1")

    with pytest.raises(Exception, match="stopped in batch 1"):
        probe.run(write=fail)
    probe.forget_calls()
    probe.set_available(10)
    probe.run()
    planned = [(call["start"], call["end"]) for call in probe.calls() if call["call"] == "partitions"]
    assert planned == [(5, 8), (8, 10)]


def test_available_now_is_prepared_once_and_runs_in_limited_batches(probe: Probe) -> None:
    probe.set_available(25)
    probe.run(limit=10)
    calls = [call["call"] for call in probe.calls()]
    assert calls.count("prepareForTriggerAvailableNow") == 1
    planned = [(call["start"], call["end"]) for call in probe.calls() if call["call"] == "partitions"]
    assert planned == [(0, 10), (10, 20), (20, 25)]


def test_commit_comes_with_the_next_batch_and_the_last_end_comes_back_as_a_start(probe: Probe) -> None:
    """Why progress is published from the start of latestOffset: the last batch is never committed."""
    probe.set_available(25)
    probe.run(limit=10)
    calls = probe.calls()
    assert [call["end"] for call in calls if call["call"] == "commit"] == [10, 20]
    assert [call for call in calls if call["call"] == "latestOffset"][-1]["start"] == 25


def test_commit_of_a_batch_comes_only_after_its_end_stands_in_the_checkpoint(probe: Probe) -> None:
    probe.set_available(5)
    probe.run()
    written = (probe.folder / "checkpoint" / "offsets" / "0").read_text()
    assert '{"n": 5}' in written


def test_python_workers_live_on_between_batches(probe: Probe) -> None:
    """Why connections are kept at module level."""
    reads: dict[int, int] = {}

    def keep(frame: Any, _: int) -> None:
        for row in frame.collect():
            reads[row.pid] = max(reads.get(row.pid, 0), row.reads)

    probe.set_available(12)
    probe.run(write=keep, limit=2)
    assert max(reads.values()) > 1
