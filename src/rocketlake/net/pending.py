"""Pending: our requests on one link that wait for their answers.

Owns        opaque -> future, and the deadlines.
Must not know   sockets, timers (sweeper.py calls `sweep`).
"""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush

from rocketlake.base.errors import LinkError
from rocketlake.protocol.command import Command


class InvokeTimeout(LinkError):
    """No answer in time. The request may or may not have been served."""


class Pending:
    """Waiting requests by opaque. Times are monotonic seconds."""

    __slots__ = ("_deadlines", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._deadlines: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, opaque: int, deadline: float, future: asyncio.Future[Command]) -> None:
        """Waits for the answer with this opaque until `deadline`."""
        self._waiting[opaque] = future
        heappush(self._deadlines, (deadline, opaque))
        if len(self._deadlines) > 2 * len(self._waiting) + 1024:
            # Deadlines of answered requests stay until they are due; without this a fast peer would let them pile up.
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._waiting]
            heapify(self._deadlines)

    def resolve(self, answer: Command) -> bool:
        """Hands an answer to who waits for it; False when nobody does (late, or never asked)."""
        future = self._waiting.pop(answer.opaque, None)
        if future is None or future.done():
            return False
        future.set_result(answer)
        return True

    def sweep(self, now: float) -> None:
        """Fails what is due with InvokeTimeout."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now:
            _, opaque = heappop(deadlines)
            future = self._waiting.pop(opaque, None)
            if future is not None and not future.done():
                future.set_exception(InvokeTimeout("no answer in time"))

    def fail_all(self, why: str) -> None:
        """The link is gone: nobody waits any longer."""
        waiting, self._waiting, self._deadlines = self._waiting, {}, []
        for future in waiting.values():
            if not future.done():
                future.set_exception(LinkError(why))
