"""A fair queue: work that does not fit into one time slice (a turn) continues in a later one.

Owns        the queued work, first come first served; the calls that are put off until a turn ends.
Must not know   what the work does.

All links and all woken pulls share one queue. So a chunk that comes from a socket waits for one turn at most, however
much work is queued.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from rocketlake.base.callbacks import call, raised
from rocketlake.base.clock import Clock

__all__ = ["Turns"]

Work = Callable[[float], object]


class Turns:
    """The queue. All parts of one server share one queue, on one event loop."""

    def __init__(self, clock: Clock, seconds: float, brief_seconds: float = 0.0) -> None:
        """A turn lasts `seconds`, or `brief_seconds` while `is_brief()` is true."""
        self.is_brief: Callable[[], bool] = lambda: False
        """True while the queued work would never end by itself (cold reads): turns are short then."""
        self._seconds = seconds
        self._brief_seconds = brief_seconds
        self.busy_seconds = 0.0
        """The time that all turns so far took together."""
        self._clock = clock
        self._line: deque[Work] = deque()
        self._planned = False
        self._is_on = False
        self._endings: list[Callable[[], object]] = []

    @property
    def is_taken(self) -> bool:
        """True while work waits for its turn: new work goes to the end of the line then."""
        return self._planned

    @property
    def seconds(self) -> float:
        """The length of a turn that starts now."""
        return self._brief_seconds if self.is_brief() else self._seconds

    def wait(self, work: Work) -> None:
        """Call `work(end)` in a later turn; `end` is the monotonic time at which the turn ends.

        Each call gets at least one piece of work done. Work that has more to do then queues again.
        """
        self._line.append(work)
        self._plan()

    def at_end(self, ending: Callable[[], object]) -> None:
        """Call `ending` when this turn ends, before the loop reads sockets again; without a turn, with `call_soon`."""
        if self._is_on:
            self._endings.append(ending)
        else:
            asyncio.get_running_loop().call_soon(ending)

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """One turn; afterwards the loop reads sockets."""
        begin = self._clock.monotonic()
        self._is_on = True
        try:
            end = begin + self.seconds
            while self._line:
                work = self._line.popleft()
                try:
                    work(end)
                except Exception as error:
                    raised(work, error)
                if self._clock.monotonic() > end:
                    break
        finally:
            self._is_on = self._planned = False
            endings, self._endings = self._endings, []
            for ending in endings:
                call(ending)
            self.busy_seconds += self._clock.monotonic() - begin
            if self._line:
                self._plan()
