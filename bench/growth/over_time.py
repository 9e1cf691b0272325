"""One load for ten minutes at a steady rate: what a message costs in the first and in the last minute.

Owns        the loads, the minutes. A load's rate is far below the maximum: what is asked is the cost, not the speed.
Must not know   what is allowed to grow.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import wire
from bench.brokers import RocketLake
from bench.java import BatchSend, BenchmarkTransactions, Drain
from bench.plan import Values, say
from bench.window import Window, wait_for_sends

ROOT = Path(__file__).resolve().parents[2]
WARM_SECONDS = 10.0
TOPIC = "BenchmarkTest"


@dataclass(frozen=True, slots=True)
class LongLoad:
    """`drive` keeps the load up while it is entered; `settings` are the broker's."""

    name: str
    title: str
    drive: Callable[[RocketLake], contextmanager[None]]  # type: ignore[type-arg]
    settings: dict[str, object]
    counted_topic: str = ""
    """Messages are counted in this topic instead of all that the broker stored."""


@contextmanager
def generated(side: RocketLake, *, rate: int, delay_level: int = 0) -> Iterator[None]:
    """Messages of 128 bytes at a steady rate, while it is entered, 15 minutes at most."""
    command = [sys.executable, "-m", "bench.generator", side.broker, "--rate", str(rate), "--body-bytes", "128"]
    command += ["--queues", "100-199", "--warm", "1", "--seconds", "900", "--delay-level", str(delay_level)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def consumed(side: RocketLake) -> Iterator[None]:
    """Messages that Apache's push consumer reads as they come."""
    with Drain(side.namesrv), generated(side, rate=5_000):
        yield


@contextmanager
def batches(side: RocketLake) -> Iterator[None]:
    """Batches of 32 small messages from Apache's producer."""
    with BatchSend(side.namesrv, threads=1, per_batch=32, body_bytes=100, per_second=20_000):
        yield


@contextmanager
def transactions(side: RocketLake) -> Iterator[None]:
    """Apache's benchmark of transactions, as fast as it goes."""
    with BenchmarkTransactions(side.namesrv, threads=16, body_bytes=128):
        yield


LOADS = (
    LongLoad("sends", "sends, 5,000 a second", lambda side: generated(side, rate=5_000), {}),
    LongLoad(
        "sends-sync",
        "sends with SYNC_FLUSH, 2,000 a second",
        lambda side: generated(side, rate=2_000),
        {"flushDiskType": "SYNC_FLUSH"},
    ),
    LongLoad("batches", "batches of 32, 20,000 messages a second", batches, {}),
    LongLoad("live", "sends and a push consumer, 5,000 a second", consumed, {}),
    LongLoad("delayed", "delayed by 1 s, 2,000 a second", lambda side: generated(side, rate=2_000, delay_level=1), {}),
    LongLoad("transactions", "transactions, 16 threads", transactions, {}, counted_topic=TOPIC),
)


def run(load: LongLoad, root: Path, minutes: int, minute_seconds: float) -> list[Values]:
    """The figures of each minute."""
    with RocketLake(root, load.settings) as side, load.drive(side):
        wait_for_sends(side, 20)
        time.sleep(WARM_SECONDS)
        found = []
        for minute in range(minutes):
            found.append(_minute(load, side, minute_seconds))
            figures = ", ".join(f"{name} {value:g}" for name, value in found[-1].items())
            say(f"{load.name}, minute {minute + 1} of {minutes}: {figures}")
    return found


def _minute(load: LongLoad, side: RocketLake, seconds: float) -> Values:
    before = wire.messages_of(side.broker, load.counted_topic) if load.counted_topic else 0
    window = Window(side)
    time.sleep(seconds)
    count = wire.messages_of(side.broker, load.counted_topic) - before if load.counted_topic else None
    values = window.close(count)
    values = {name: values[name] for name in ("messages_per_second", "broker_cpu_us", "switches_per_message")}
    return values | {"anonymous_mb": side.memory_mb()["anonymous"]}
