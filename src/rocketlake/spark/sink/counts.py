"""The counts of a write: by task, then by batch.

Owns        the numbers, the message a task gives to the commit, the line of the progress file.
Must not know   Spark's calls, how rows are sent.

Spark's progress takes no numbers from a Python sink. So the commit logs them, and with option progressPath adds them to
a file as one line of JSON; after a repeated commit there are several lines of one (queryId, batchId), of which the last
one counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

from rocketlake.base.errors import UsageError
from rocketlake.base.logs import get_logger
from rocketlake.spark.sink.identity import TaskIdentity

__all__ = ["Counts", "TaskDone", "add_line", "summary"]

_log = get_logger(__name__)


@dataclass(slots=True)
class Counts:
    """Numbers of a task; those of a batch are their sums."""

    rows: int = 0
    """Rows of the input."""
    messages: int = 0
    """Messages that the brokers have, `replayed` ones among them."""
    replayed: int = 0
    """Messages that the brokers had before."""
    bytes: int = 0
    """Bytes of the requests' bodies."""
    requests: int = 0
    retries: int = 0
    unsure: int = 0
    """Requests whose messages are stored, but not yet flushed or copied as the broker's settings ask."""
    skipped: int = 0
    dead_letters: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    """Invalid rows by reason."""

    def add(self, other: Counts) -> None:
        """Add these counts."""
        for number in fields(self):
            if number.name != "faults":
                setattr(self, number.name, getattr(self, number.name) + getattr(other, number.name))
        for fault, count in other.faults.items():
            self.faults[fault] = self.faults.get(fault, 0) + count


@dataclass
class TaskDone(WriterCommitMessage):
    """The message of a task to the commit: all of its rows are written."""

    identity: TaskIdentity
    counts: Counts
    lists: tuple[tuple[int, int], ...] = ()
    """exactly_once: the places of the lists of its half messages in the decision topic."""
    born_ms: int = 0
    """exactly_once: when its first half message was made; 0 if there is none."""


def summary(messages: Sequence[WriterCommitMessage | None]) -> dict[str, Any]:
    """The numbers of a whole write, in the form of the progress file."""
    done = [message for message in messages if isinstance(message, TaskDone)]
    total = Counts()
    for message in done:
        total.add(message.counts)
    numbers = {_camel(name): value for name, value in asdict(total).items()}
    ids = {"queryId": done[0].identity.query, "batchId": done[0].identity.batch} if done else {}
    return {**ids, "tasks": len(done), **numbers}


def log_summary(numbers: dict[str, Any]) -> None:
    """Log the counts; as a warning for invalid rows, replayed or unsure messages."""
    invalid = numbers["skipped"] + numbers["deadLetters"]
    _log.log(30 if invalid or numbers["unsure"] else 20, "rocketmq sink: %s", json.dumps(numbers))
    if numbers["replayed"]:
        _log.warning(
            "rocketmq sink: %d of %d messages were in the topic already and not stored again. That is right after a"
            " failure; else these ids were used before: queryId %s, batchId %s",
            numbers["replayed"],
            numbers["messages"],
            numbers["queryId"],
            numbers["batchId"],
        )


def add_line(path: str, numbers: dict[str, Any]) -> None:
    """Add the numbers to the progress file. UsageError if it cannot be written."""
    line = json.dumps(numbers, sort_keys=True) + "\n"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)
    except OSError as error:
        raise UsageError(
            f"option 'progressPath': {path} cannot be written: {error.strerror}",
            hint="give a file in a folder of the driver",
        ) from None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
