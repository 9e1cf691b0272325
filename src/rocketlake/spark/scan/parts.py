"""The part of a scan that one Spark task reads; small values that are pickled.

Owns        the kinds of parts.
Must not know   how parts are made (plan.py) and read (log_read.py, place_read.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

__all__ = ["IndexSlice", "LogRange", "Places", "QueueSlice", "ScanPart", "WholeTable"]


class ScanPart(InputPartition):
    """One of the classes below."""

    def __init__(self) -> None:
        super().__init__(None)


@dataclass(frozen=True)
class LogRange(ScanPart):
    """The records that start in [start, end) of the commit log; a record starts at `start`."""

    start: int
    end: int
    safe_end: int = 0
    """The log does not end before this place: queues name records up to here."""
    is_tail: bool = False
    """True if `end` is that of the last used file: the log ends somewhere before it."""
    without: tuple[tuple[str, int, int], ...] = ()
    """(topic, queue id, offset): another part reads the records before this offset from the queue."""


@dataclass(frozen=True)
class QueueSlice(ScanPart):
    """The entries [start, end) of one consume queue."""

    topic: str
    queue_id: int
    start: int
    end: int


@dataclass(frozen=True)
class Places(ScanPart):
    """Single records."""

    positions: tuple[int, ...]


@dataclass(frozen=True)
class IndexSlice(ScanPart):
    """The entries [start, end) of one key index file, counted from 1."""

    file: str
    start: int
    end: int


@dataclass(frozen=True)
class WholeTable(ScanPart):
    """All of a small table."""
