"""What one Spark task of a scan reads; small values that travel to it.

Owns        the kinds of parts.
Must not know   who makes them (plan.py), who reads them (log_read.py, place_read.py).
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
    """Before it the log does not end, whatever lies there: queues name records up to here."""
    is_tail: bool = False
    """Is `end` the end of the last used file, so that the log ends somewhere before?"""
    without: tuple[tuple[str, int, int], ...] = ()
    """(topic, queue id, offset): what lies before this offset is read from the queue, by another part."""


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
