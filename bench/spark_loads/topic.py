"""Owns a RocketLake broker with a filled topic of eight queues, for the loads that read it through Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import wire
from bench.brokers import RocketLake
from bench.loads.backlog import fill

TOPIC = "spark-bench"
QUEUES = 8


@contextmanager
def filled_topic(root: Path, messages: int) -> Iterator[RocketLake]:
    """A running broker whose topic TOPIC holds so many messages of 1 KiB."""
    with RocketLake(root / "rocketlake") as side:
        wire.create_topic(side.broker, side.namesrv, TOPIC, QUEUES)
        fill(side, messages, topic=TOPIC)
        yield side
