"""`python -m bench.waiting_timers [--messages N]`: anonymous memory of a process in whose timer wheel N messages wait.

Owns        filling wheel and timer log at the level of the store, as a broker does it: 1,024 messages at a time.
Must not know   brokers, what a waiting message looks like: its record lies in the commit log, in no memory of its own.

Two figures: what is taken while all wait (spread over ten hours), and while a tick that all wait for is read for its
delivery. Files are real, and removed at the end: 52 bytes a message.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from bench.process import memory_mb
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.broker.delay.due_tick import DueTick
from rocketlake.store.timer import unit_run
from rocketlake.store.timer.layout import DUE
from rocketlake.store.timer.timer_store import TimerStore, Waiting

RUN = 1024
RECORD_BYTES = 1400
SPREAD_SECONDS = 36_000
LOG_FILE_BYTES = 100 << 20
NOW = 1_700_000_000_000


def anonymous() -> float:
    return memory_mb(os.getpid())["anonymous"]


def filled(root: Path, messages: int, spread: int) -> TimerStore:
    """A store in which so many messages wait, for as many seconds of ticks as `spread`."""
    store = TimerStore(root, PosixFiles(), file_bytes=LOG_FILE_BYTES, precision_ms=1000)
    store.load()
    for first in range(0, messages, RUN):
        due_ms = NOW + 1000 * (1 + first // RUN % spread)
        run = unit_run.UnitRun()
        numbers = range(first, min(first + RUN, messages))
        run.put(Waiting(due_ms, DUE, number * RECORD_BYTES, RECORD_BYTES, 0) for number in numbers)
        store.put_run(run, NOW)
    return store


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.waiting_timers")
    parser.add_argument("--messages", type=int, default=10_000_000)
    messages = parser.parse_args().messages
    with tempfile.TemporaryDirectory(prefix="rocketlake-waiting-") as name:
        (Path(name) / "one").mkdir()
        (Path(name) / "spread").mkdir()
        filled(Path(name) / "spread", RUN, 1).close()  # what the first message costs is not one message's
        before = anonymous()
        began = time.monotonic()
        store = filled(Path(name) / "spread", messages, SPREAD_SECONDS)
        spent = (time.monotonic() - began) * 1e6 / messages
        print(f"{messages} wait: {anonymous() - before:.1f} MB more, {spent:.2f} us a message to put in")
        store.close()
        store = filled(Path(name) / "one", messages, 1)
        before, began = anonymous(), time.monotonic()
        tick = DueTick(store, NOW + 1000, lambda _unit: None)
        longest = 0.0
        while not tick.is_read:
            step = time.monotonic()
            tick.read_on()
            longest = max(longest, time.monotonic() - step)
        spent = (time.monotonic() - began) * 1e6 / messages
        print(
            f"{len(tick.units)} of one tick are read: {anonymous() - before:.1f} MB more, {spent:.2f} us a message,"
            f" {longest * 1000:.1f} ms the longest step"
        )
        store.close()


if __name__ == "__main__":
    main()
