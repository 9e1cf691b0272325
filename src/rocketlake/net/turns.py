"""Work that takes longer than others can wait goes on in turns.

Owns        who has more to do than fits in one turn, in the order they came; what is put off until a turn ends.
Must not know   what the work is.

Links with many requests and pulls that wake together stand in one line, so that whatever a socket brings waits for one
turn at most, however many of them there are.
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
    """The line. All that share a loop and serve the same peers share one."""

    def __init__(self, clock: Clock, seconds: float, brief_seconds: float = 0.0) -> None:
        """A turn takes `seconds`, or `brief_seconds` while `is_brief` says so."""
        self.is_brief: Callable[[], bool] = lambda: False
        """Is the work of a kind that never ends by itself, and must not make others wait?"""
        self._seconds = seconds
        self._brief_seconds = brief_seconds
        self.busy_seconds = 0.0
        """How long all turns so far took together."""
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
        """How long a turn may take now."""
        return self._brief_seconds if self.is_brief() else self._seconds

    def wait(self, work: Work) -> None:
        """Call `work` when its turn comes, with the time until which it may go on.

        It gets something done each time; if there is more left then, it waits once more.
        """
        self._line.append(work)
        self._plan()

    def at_end(self, ending: Callable[[], object]) -> None:
        """Call `ending` when this turn ends, before the loop looks at its sockets; soon, if no turn is on."""
        if self._is_on:
            self._endings.append(ending)
        else:
            asyncio.get_running_loop().call_soon(ending)

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """One turn; then the loop looks at its sockets."""
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
