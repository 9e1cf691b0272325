"""What the source relies on in Spark, as assertions: a new Spark release that breaks one says so here."""

from __future__ import annotations

import json
import os
import time
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

    def planned(self) -> list[tuple[int, int]]:
        return [(call["start"], call["end"]) for call in self.calls() if call["call"] == "partitions"]

    def start(
        self, *, write: Callable[[Any, int], None] | None = None, trigger: str = "now", **options: Any
    ) -> StreamingQuery:
        reader = self.spark.readStream.format("probe").option("folder", str(self.folder))
        for name, value in options.items():
            reader = reader.option(name, value)
        writer = reader.load().writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
        triggers: dict[str, dict[str, Any]] = {"now": {"availableNow": True}, "once": {"once": True}}
        writer = writer.trigger(**triggers[trigger]) if trigger else writer
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
    assert probe.planned() == [(5, 8), (8, 10)]


def test_available_now_is_prepared_once_and_runs_in_limited_batches(probe: Probe) -> None:
    probe.set_available(25)
    probe.run(limit=10)
    calls = [call["call"] for call in probe.calls()]
    assert calls.count("prepareForTriggerAvailableNow") == 1
    assert probe.planned() == [(0, 10), (10, 20), (20, 25)]


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


def test_workers_of_a_local_session_are_reached_over_unix_sockets(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ["PYTHON_UNIX_DOMAIN_ENABLED"].lower())
    assert found.collect() == ["true"]


def test_offsets_are_compared_as_text(probe: Probe) -> None:
    """Why offsets.py writes them in one order: equal offsets in another order are a new batch, again and again."""
    probe.set_available(3)
    query = probe.start(trigger="", shuffled="yes")
    try:
        deadline = time.monotonic() + 60
        while len(probe.planned()) < 4:
            assert time.monotonic() < deadline
            query.awaitTermination(0.2)
    finally:
        query.stop()
    assert probe.planned()[:4] == [(0, 3), (3, 3), (3, 3), (3, 3)]


def test_an_end_before_the_start_is_a_batch_without_rows_and_the_next_one_begins_there(probe: Probe) -> None:
    """How a topic that was made anew is read from its first message (progress.py)."""
    rows: list[int] = []

    def keep(frame: Any, _: int) -> None:
        rows.extend(row.n for row in frame.collect())

    for available in (5, 2, 4):
        probe.set_available(available)
        probe.run(write=keep, goes_back="yes")
    assert probe.planned() == [(0, 5), (5, 2), (2, 4)]
    assert rows == [0, 1, 2, 3, 4, 2, 3]


def test_a_limit_comes_back_as_it_was_given_but_once_asks_for_all(probe: Probe) -> None:
    probe.set_available(25)
    probe.run(limit=10)
    assert {call["limit"] for call in probe.calls() if call["call"] == "latestOffset"} == {"ReadMaxRows"}
    probe.forget_calls()
    probe.set_available(60)
    query = probe.start(trigger="once", limit=10)
    query.awaitTermination(60)
    assert "ReadAllAvailable" in {call["limit"] for call in probe.calls() if call["call"] == "latestOffset"}
    assert probe.planned() == [(25, 60)]


def batch_of(probe: Probe, **options: str) -> Any:
    frame = probe.spark.read.format("probe").option("folder", str(probe.folder)).options(**options).load()
    return frame.where("n IN (1, 2, 7) AND n < 7")


def test_a_reader_that_takes_filters_is_refused_while_push_down_is_off(probe: Probe) -> None:
    probe.set_available(9)
    with pytest.raises(Exception, match="PUSHDOWN_DISABLED"):
        batch_of(probe, pushes="always").collect()


@pytest.mark.parametrize("switch", ["true", "false"])
def test_a_reader_that_takes_filters_only_when_the_planner_asks_works_either_way(probe: Probe, switch: str) -> None:
    """pushdown.py: the planner's file is in the call stack. If this fails, look for its new name."""
    probe.set_available(9)
    probe.spark.conf.set("spark.sql.python.filterPushdown.enabled", switch)
    try:
        assert sorted(row.n for row in batch_of(probe, pushes="asked").collect()) == [1, 2]
    finally:
        probe.spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    pushed = [(call["kind"], call["value_kind"]) for call in probe.calls() if call["call"] == "pushFilters"]
    if switch == "false":
        assert pushed == []
    else:
        assert ("LessThan", "int") in pushed
        assert {kind for name, kind in pushed if name == "In"} <= {"list", "tuple"}


def test_a_data_frame_that_is_used_again_is_read_by_the_filters_of_its_last_query(probe: Probe) -> None:
    """Why filters are taken only with option pushDown. If this fails one day, Spark is right, and the option can go."""
    probe.set_available(9)
    probe.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = probe.spark.read.format("probe").options(folder=str(probe.folder), pushes="asked").load()
        assert [row.n for row in frame.where("n = 1").collect()] == [1]
        assert [row.n for row in frame.where("n = 2 OR n = 3").collect()] == []
    finally:
        probe.spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_the_checkpoint_is_text_with_a_version_a_line_of_metadata_and_a_line_per_source(probe: Probe) -> None:
    """`rocketlake spark offsets set` writes these files."""
    probe.set_available(5)
    probe.run()
    lines = (probe.folder / "checkpoint" / "offsets" / "0").read_text().split("\n")
    assert (lines[0], len(lines), json.loads(lines[2])) == ("v1", 3, {"n": 5})
    assert (probe.folder / "checkpoint" / "commits" / "0").exists()
