"""An asyncio loop on a hand-moved clock: when no task can run, time jumps to the next timer.

Owns        the loop's time (that of a ManualClock), the error when no timer is left.
Must not know   the program on the loop.

Sleeps of the clock, asyncio.sleep, timeouts and call_later all live on one time, and no wall time passes. Two runs of
the same program take the same steps in the same order, as long as the program uses no thread, no socket, no unseeded
random number and no order of a set of strings or objects.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from rocketlake.base.clock import ManualClock

__all__ = ["NothingLeft", "VirtualLoop", "run_virtual"]

T = TypeVar("T")


class NothingLeft(Exception):
    """The program waits, and no timer is left that could wake it."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time()` is `clock.monotonic()`."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(_Idle(clock))
        self._clock = clock

    def time(self) -> float:
        """Monotonic seconds of the clock."""
        return self._clock.monotonic()


class _Idle(selectors.DefaultSelector):
    """The selector of an idle loop: moves the clock instead of waiting for files."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Move the clock to the loop's or the clock's next timer; no file is ever ready."""
        if timeout is not None and timeout <= 0:
            return []
        wake = self._clock.next_wake
        if wake is not None:
            wait = wake - self._clock.monotonic()
            timeout = wait if timeout is None or wait < timeout else timeout
        if timeout is None:
            raise NothingLeft("every task waits, and no timer is set")
        # Whole microseconds, rounded up: a timer must be due when the clock stands at its time.
        self._clock.advance(max(1, math.ceil(round(timeout * 1_000_000, 3))) / 1000)
        return []


def run_virtual(main: Coroutine[Any, Any, T], clock: ManualClock) -> T:
    """Run `main` on a loop of its own; cancel the tasks that it leaves behind."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(main)
