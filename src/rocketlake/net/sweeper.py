"""Sweeper: the one timer of a server or a client.

Owns        the rhythm of `sweep`: all links once a second, links that wait for an answer every 50 ms.
Must not know   what a sweep finds (link.py: idle and stuck peers, slow frames; asked.py: deadlines).
"""

from __future__ import annotations

import asyncio
from typing import Final

from rocketlake.base.callbacks import call
from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.net.peer import Peer

_SLOW_SECONDS: Final = 1.0
_FAST_SECONDS: Final = 0.05


class Sweeper(Service):
    """Calls `sweep` of its links from one task, on the time of its clock.

    A request times out at most 50 ms late. Without links there is no task.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__("link-sweeper", clock)
        self._links: dict[Peer, None] = {}  # in the order of their coming, so that simulations repeat
        self._expecting: dict[Peer, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._fast = False
        self._next_slow = 0.0

    def add(self, link: Peer) -> None:
        """Watches a link."""
        self._links[link] = None
        if self._task is None:
            self._start()

    def discard(self, link: Peer) -> None:
        """Forgets a link; the timer stops with the last one."""
        self._links.pop(link, None)
        self._expecting.pop(link, None)
        if not self._links:
            self._end()

    def expect(self, link: Peer) -> None:
        """The link waits for an answer: sweep its requests often."""
        self._expecting[link] = None
        if not self._fast:
            self._fast = True
            self._start()

    async def stop(self) -> None:
        """Ends the task."""
        self._task = None
        self._fast = False
        await super().stop()

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._fast = False

    def sweep(self) -> None:
        """Sweep the links that are due."""
        now = self._clock.monotonic()
        if now >= self._next_slow:
            self._next_slow = now + _SLOW_SECONDS
            for link in tuple(self._links):
                call(link.sweep, now)
        for link in tuple(self._expecting):
            call(link.asked.sweep, now)
            if not link.asked:
                self._expecting.pop(link, None)

    def _start(self) -> None:
        """Starts the task, or starts it anew when its sleep is too long for a request that was just asked."""
        if self._task is not None:
            self._task.cancel()
        self._task = self.every("sweep", lambda: _FAST_SECONDS if self._fast else _SLOW_SECONDS, self._look)

    def _look(self) -> None:
        self.sweep()
        self._fast = bool(self._expecting)
