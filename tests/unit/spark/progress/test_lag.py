"""Progress maths, on reports as Spark writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketlake.spark.progress.lag import behind_latest, flat_offsets, read_report
from rocketlake.spark.progress.totals import QueryTotals

# Written by Spark 4.3 for a pipeline (ids shortened).
RECORDED = """{
 "id": "q1", "runId": "r1", "name": "orders.main", "timestamp": "2026-11-21T23:40:10.000Z", "batchId": 3,
 "batchDuration": 2000, "numInputRows": 400, "inputRowsPerSecond": 100.0, "processedRowsPerSecond": 200.0,
 "durationMs": {"addBatch": 1500, "triggerExecution": 2000}, "stateOperators": [],
 "sources": [{"description": "PythonMicroBatchStreamWithAdmissionControl@545839d1",
   "startOffset": {"orders": {"broker-a": {"0": 0, "1": 0}}},
   "endOffset": {"orders": {"broker-a": {"0": 300, "1": 100}}},
   "latestOffset": {"orders": {"broker-a": {"0": 1000, "1": 100, "2": 50}}},
   "numInputRows": 400, "inputRowsPerSecond": 100.0, "processedRowsPerSecond": 200.0}],
 "sink": {"description": "ParquetSink", "numOutputRows": -1},
 "observedMetrics": {"rocketlake": {"rows": 400, "bad": 3, "bytes": 40000, "newest_ms": 1795304400000}}
}"""


def report(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED)
    sources = found["sources"][0]
    for name in ("startOffset", "endOffset", "latestOffset"):
        if name in changes:
            sources[name] = changes.pop(name)
    return found | changes


def queue(offset: int) -> dict[str, Any]:
    return {"T": {"b": {"0": offset}}}


def test_a_recorded_report_is_read() -> None:
    read = read_report(report())
    assert (read.query, read.name, read.batch, read.rows, read.bad, read.batch_ms) == (
        "q1", "orders.main", 3, 400, 3, 2000,
    )  # fmt: skip
    # Queue 2 came after the batch was planned: nothing of it is late yet.
    assert behind_latest(read.end, read.latest) == {
        ("0", "orders", "broker-a", "0"): 700,
        ("0", "orders", "broker-a", "1"): 0,
    }


@pytest.mark.parametrize(
    ("offsets", "flat"),
    [
        ('{"T": {"0": 7}}', {("T", "0"): 7}),
        ({"T": {"b": {"0": 7}}}, {("T", "b", "0"): 7}),
        (None, {}),
        (42, {}),
        ("not json", {}),
        ({"T": True}, {}),
        ({"T": [1]}, {}),
    ],
)
def test_offsets_of_any_depth(offsets: object, flat: object) -> None:
    assert flat_offsets(offsets) == flat


def test_nonsense_counts_as_nothing() -> None:
    read = read_report({"timestamp": "yesterday", "sources": None, "observedMetrics": None, "numInputRows": None})
    assert (read.rows, read.end, read.began_ms) == (0, {}, -1)


def test_min_max_avg_and_total_behind() -> None:
    lag = QueryTotals("q1", "n").add(read_report(report()))
    assert (lag.min_behind, lag.max_behind, lag.avg_behind, lag.total_behind) == (0, 700, 350.0, 700)
    assert lag.bytes_behind == 70_000
    assert (lag.rows, lag.bad_rows, lag.batches) == (400, 3, 1)


def test_rows_per_second_and_time_left() -> None:
    totals = QueryTotals("q1", "n")
    lag = totals.add(read_report(report()))
    assert lag.rows_per_second == 200.0
    assert lag.seconds_left == 3.5


def test_a_report_that_comes_twice_counts_once() -> None:
    totals = QueryTotals("q1", "n")
    totals.add(read_report(report()))
    totals.add(read_report(report(batchId=2)))
    assert totals.add(read_report(report())).rows == 400
    assert totals.add(read_report(report(batchId=4))).rows == 800
    assert totals.add(read_report(report(runId="r2", batchId=0))).rows == 1200


def test_observed_store_times_give_the_time_behind() -> None:
    totals = QueryTotals("q1", "n")
    read = read_report(report())
    assert totals.add(read).seconds_behind == (read.began_ms + 2000 - 1795304400000) / 1000
    caught_up = report(batchId=4, latestOffset={"orders": {"broker-a": {"0": 300, "1": 100}}})
    assert totals.add(read_report(caught_up)).seconds_behind == 0


def test_without_them_the_history_of_the_newest_offsets_does() -> None:
    totals = QueryTotals("q1", "n")

    def add(second: int, end: int, latest: int) -> float:
        given = report(
            batchId=second, timestamp=f"2026-11-21T23:40:{second:02d}.000Z", durationMs={"triggerExecution": 0},
            endOffset=queue(end), latestOffset=queue(latest), observedMetrics={},
        )  # fmt: skip
        return totals.add(read_report(given)).seconds_behind

    assert add(0, 0, 0) == 0
    assert add(10, 0, 1000) == 10.0  # we are where the newest was ten seconds ago
    assert add(20, 1500, 2000) == 5.0  # 1500 was the newest half way between second 10 and 20
    assert add(30, 2000, 2000) == 0


def test_more_comes_than_is_read() -> None:
    totals = QueryTotals("q1", "n")
    for second in range(0, 50, 10):
        given = report(
            batchId=second, timestamp=f"2026-11-21T23:40:{second:02d}.000Z",
            endOffset=queue(second * 20), latestOffset=queue(second * 1000),
        )  # fmt: skip
        lag = totals.add(read_report(given))
    assert lag.seconds_left is None
