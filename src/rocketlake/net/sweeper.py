"""Sweeper: the one timer of a server or a client.

Owns        when links are looked at: all of them once a second, those with pending requests every 50 ms.
Must not know   what is looked for (link.py: deadlines, idle, stuck, slow frames).
"""

from __future__ import annotations

import asyncio
from typing import Final

from rocketlake.base.clock import Clock
from rocketlake.net.link import Link

_SLOW_SECONDS: Final = 1.0
_FAST_SECONDS: Final = 0.05


class Sweeper:
    """Calls `sweep` of its links from one timer. An answer that does not come is noticed 50 ms late at most."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._links: set[Link] = set()
        self._expecting: set[Link] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._fast = False
        self._next_slow = 0.0

    def add(self, link: Link) -> None:
        """Watches a link."""
        self._links.add(link)
        if self._timer is None:
            self._arm()

    def discard(self, link: Link) -> None:
        """Forgets a link; the timer stops with the last one."""
        self._links.discard(link)
        self._expecting.discard(link)
        if not self._links:
            self.stop()

    def expect(self, link: Link) -> None:
        """The link has a request pending: look at it often."""
        self._expecting.add(link)
        if not self._fast:
            self._arm()

    def stop(self) -> None:
        """Stops the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fast = False

    def sweep(self) -> None:
        """One look at the links that are due."""
        now = self._clock.monotonic()
        if now >= self._next_slow:
            self._next_slow = now + _SLOW_SECONDS
            for link in tuple(self._links):
                link.sweep(now)
        for link in tuple(self._expecting):
            link.pending.sweep(now)
            if not link.pending:
                self._expecting.discard(link)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fast = bool(self._expecting)
        self._timer = asyncio.get_running_loop().call_later(_FAST_SECONDS if self._fast else _SLOW_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.sweep()
        if self._links:
            self._arm()
        else:
            self._fast = False
