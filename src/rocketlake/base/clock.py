"""The clock seam: the only place that asks the machine for the time or sleeps.

Owns        Millis, the type of its times, and its base (Point); wall clock, monotonic clock, sleeping; a clock moved by
            hand for tests and simulations.
Must not know   the tasks that wait.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

__all__ = ["Clock", "ManualClock", "Millis", "Point", "SystemClock"]

if TYPE_CHECKING:
    from typing import Self, overload

    class Point(int):
        """A number that names a place of a line: time, bytes or messages. The base of each such kind.

        A point and a plain number give a point, by `+` and by `-`. A point less a point of the same kind is a plain
        number, their distance.
        """

        def __add__(self, other: int, /) -> Self: ...
        def __radd__(self, other: int, /) -> Self: ...
        @overload
        def __sub__(self, other: Self, /) -> int: ...  # type: ignore[overload-overlap]  # a point is an int, too
        @overload
        def __sub__(self, other: int, /) -> Self: ...
        def __sub__(self, other: int, /) -> int: ...

    class Millis(Point):
        """A moment in milliseconds since 1970; moments are told apart from lengths of time, which are plain numbers."""

else:
    Point = Millis = int


@runtime_checkable
class Clock(Protocol):
    """Time as the rest of the code sees it."""

    def now_ms(self) -> Millis:
        """Wall clock: milliseconds since 1970-01-01 UTC. May jump."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back. For deadlines."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; 0 or less gives other tasks one turn."""

    async def wait(self, future: asyncio.Future[Any], seconds: float) -> bool:
        """Wait until the future is done, at most for `seconds`; True if it is done. A late future is not cancelled."""
        ...


class SystemClock:
    """The clock of this machine."""

    __slots__ = ()

    def now_ms(self) -> Millis:
        """Milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000  # type: ignore[return-value]  # here it comes in, at no cost

    monotonic = staticmethod(time.monotonic)
    """Seconds since an arbitrary moment. Called often, so `time.monotonic` is bound directly, without a wrapper."""

    async def sleep(self, seconds: float) -> None:
        """asyncio.sleep."""
        await asyncio.sleep(max(0.0, seconds))

    async def wait(self, future: asyncio.Future[Any], seconds: float) -> bool:
        """asyncio.wait."""
        done, _ = await asyncio.wait((future,), timeout=max(0.0, seconds))
        return bool(done)


class ManualClock:
    """A clock that stands still until it is moved. Sleepers wake by time, those of one time in the order they came.

    `start_ms` is the first wall-clock time; `monotonic()` starts at 0. Times are kept in microseconds so that sums of
    many small sleeps stay exact.
    """

    def __init__(self, start_ms: int = 1_700_000_000_000, *, settle_turns: int = 100) -> None:
        """`settle_turns`: turns of the loop for all tasks that run at one time; fewer make long simulations quicker."""
        self._start_ms = start_ms
        self._settle_turns = settle_turns
        self._elapsed_us = 0
        self._jump_ms = 0
        self._order = itertools.count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def now_ms(self) -> Millis:
        """Start time, plus the time advanced, plus the jumps of the wall clock."""
        return Millis(self._start_ms) + self._elapsed_us // 1000 + self._jump_ms

    def monotonic(self) -> float:
        """Seconds advanced so far."""
        return self._elapsed_us / 1_000_000

    async def sleep(self, seconds: float) -> None:
        """Return when the clock has been advanced past `seconds` from now."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        await self._sleeper(seconds)

    async def wait(self, future: asyncio.Future[Any], seconds: float) -> bool:
        """Return when the future is done, or the clock has been advanced past `seconds` from now."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return future.done()
        sleeper = self._sleeper(seconds)
        try:
            await asyncio.wait((future, sleeper), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()
        return future.done()

    def _sleeper(self, seconds: float) -> asyncio.Future[None]:
        """A future that is done when the clock has been advanced past `seconds` from now."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # At least one microsecond: a loop around a sleep of none would spin at one point in time.
        due = self._elapsed_us + max(1, round(seconds * 1_000_000))
        heapq.heappush(self._sleepers, (due, next(self._order), woken))
        return woken

    def advance(self, ms: float) -> None:
        """Move forward; sleepers that become due are marked runnable, in order, and run at the next loop turn."""
        target = self._elapsed_us + round(ms * 1000)
        while self._sleepers and self._sleepers[0][0] <= target:
            self._wake_next()
        self._elapsed_us = target

    async def run_for(self, ms: float) -> None:
        """Move forward in steps: stop at the time of each sleeper, and let all tasks run there."""
        target = self._elapsed_us + round(ms * 1000)
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            self._wake_next()
            await self.settle()
        self._elapsed_us = target
        await self.settle()

    async def settle(self) -> None:
        """Let all tasks run until each waits for time, a thread or a socket.

        It gives `settle_turns` turns of the loop: a longer chain of hand-overs needs a second call.
        """
        for _ in range(self._settle_turns):
            await asyncio.sleep(0)

    def jump_wall(self, ms: int) -> None:
        """Set the wall clock forward or back without time passing (a correction by NTP)."""
        self._jump_ms += ms

    @property
    def next_wake(self) -> float | None:
        """When the next sleeper is due, in monotonic seconds; None without one."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] / 1_000_000 if self._sleepers else None

    @property
    def sleeping(self) -> int:
        """How many sleepers wait."""
        return sum(1 for _, _, woken in self._sleepers if not woken.done())

    def _wake_next(self) -> None:
        due, _, woken = heapq.heappop(self._sleepers)
        if not woken.done():  # a cancelled sleeper stays in the heap until its time
            self._elapsed_us = max(self._elapsed_us, due)
            woken.set_result(None)
