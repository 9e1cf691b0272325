"""Owns what a load and its figures are, and how long things take. Start reading here, then one file of bench/loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.brokers import Apache, RocketLake

Values = dict[str, float]
"""What one run of a load on one side measured, by name."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how much. Messages are of 1 KiB."""

    rounds: int = 2
    warm: float = 20
    seconds: float = 15
    backlog_messages: int = 3_000_000
    restart_bytes: int = 2 << 30
    cold_messages: int = 1_000_000
    connections: int = 1000
    python_messages: int = 500_000
    starts: int = 3

    @classmethod
    def quick(cls) -> Plan:
        """A smoke run: the figures say little."""
        return cls(1, 3, 5, 200_000, 200 << 20, 100_000, 200, 60_000, 1)


@dataclass(frozen=True, slots=True)
class Figure:
    """One value of a load and what it has to reach. Limits hold for the ratio ours / Apache's, or for ours alone."""

    name: str
    title: str
    must: float | None = None
    aim: float | None = None
    better: Literal["higher", "lower"] = "higher"
    limits_of: Literal["ratio", "ours"] = "ratio"


@dataclass(frozen=True, slots=True)
class Earlier:
    """Values of the loads that ran before in this run, by load and side; each a list over the rounds."""

    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def values(self, load: str, side: str, name: str) -> list[float]:
        return [run["values"][name] for run in self.runs.get(load, ()) if run["side"] == side and name in run["values"]]


SideKind = type[Apache] | type[RocketLake]
Run = Callable[[SideKind, Path, Plan, Earlier], Values]


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of load: `run` starts a side in an empty folder, drives it and stops it."""

    name: str
    title: str
    figures: tuple[Figure, ...]
    run: Run


def say(text: str) -> None:
    """Progress, always shown."""
    print(f"    {text}", flush=True)
