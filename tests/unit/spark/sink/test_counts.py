from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.spark.sink.counts import Counts, TaskDone, add_line, log_summary, summary
from rocketlake.spark.sink.identity import BATCH_ID, QUERY_ID, TaskIdentity, stream_identity


def done(partition: int, **numbers: int) -> TaskDone:
    return TaskDone(TaskIdentity("q", 3, partition), Counts(**numbers, faults={"NO_BODY": 1}))


def test_the_numbers_of_a_write_are_the_sums_of_its_tasks() -> None:
    numbers = summary([done(0, rows=5, messages=4, dead_letters=1), None, done(1, rows=2, messages=1, skipped=1)])
    assert numbers["queryId"] == "q" and numbers["batchId"] == 3 and numbers["tasks"] == 2
    assert (numbers["rows"], numbers["messages"], numbers["deadLetters"], numbers["skipped"]) == (7, 5, 1, 1)
    assert numbers["faults"] == {"NO_BODY": 2}


def test_a_write_of_no_task_has_zeros() -> None:
    assert summary([None])["rows"] == 0


def test_lines_are_added_to_the_progress_file(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    for messages in (1, 2):
        add_line(str(path), summary([done(0, rows=messages, messages=messages)]))
    assert [json.loads(line)["messages"] for line in path.read_text().splitlines()] == [1, 2]


def test_a_progress_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"progressPath.*No such file.*folder of the driver"):
        add_line(str(tmp_path / "missing" / "x"), {})


def test_replays_and_invalid_rows_are_said_loudly(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_summary(summary([TaskDone(TaskIdentity("q", 3, 0), Counts(rows=2, messages=2))]))
    assert [record.levelname for record in caplog.records] == ["INFO"]
    log_summary(summary([TaskDone(TaskIdentity("q", 3, 0), Counts(rows=2, messages=2, replayed=2, skipped=1))]))
    assert [record.levelname for record in caplog.records[1:]] == ["WARNING", "WARNING"]
    assert "2 of 2 messages were in the topic already" in caplog.text and "queryId q" in caplog.text


def test_a_stream_is_known_by_the_ids_spark_gives_its_tasks() -> None:
    identity = stream_identity("q-1", "12", 4)
    assert identity.key_prefix == "q-1/12/4/" and identity.mark(9, "ab", 3, 0, 254) == (
        "q-1/12/4/9/ab/3/00000000/000000fe"
    )
    assert identity.unique_prefix(repeatable=True) == stream_identity("q-1", "12", 4).unique_prefix(repeatable=True)
    assert identity.unique_prefix(repeatable=False) != identity.unique_prefix(repeatable=False)
    for query, batch in ((None, "1"), ("q", None), ("q", "x")):
        with pytest.raises(UsageError, match=f"{QUERY_ID}.*{BATCH_ID}"):
            stream_identity(query, batch, 0)
