"""Owns what a Spark load is and how much each moves. Figures are judged as in bench/table.py, ours alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.plan import Figure, Values

BODY_BYTES = 1024
COLUMNS = "topic,brokerName,queueId,queueOffset,msgId,tags,keys,bornTimestamp,storeTimestamp,properties,body"
"""What all reads and ceilings have, option `columns`: those of the ceilings our limits were taken from. With all 25
columns Spark's own part of the work is twice as much."""


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """How much. Bodies are of 1 KiB, or of 100 bytes where a load says "small"."""

    rows: int = 2_500_000
    small_rows: int = 5_000_000
    batch_rows: int = 500_000
    trigger_batches: int = 60
    backlog_rows: int = 10_000_000
    backlog_triggers: int = 40
    rounds: int = 2

    @classmethod
    def quick(cls) -> SparkPlan:
        """A smoke run: the figures say little."""
        return cls(120_000, 200_000, 30_000, 15, 200_000, 5, 1)


Run = Callable[[Path, SparkPlan], Values]


@dataclass(frozen=True, slots=True)
class SparkLoad:
    """One kind of load: `run` works in an empty folder, in a process of its own."""

    name: str
    title: str
    figures: tuple[Figure, ...]
    run: Run
