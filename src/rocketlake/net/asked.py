"""Asked: our requests on one link that wait for their answers.

Owns        the numbers of requests (opaque), their deadlines, the limit on waiting ones.
Must not know   sockets, timers (sweeper.py calls `sweep`).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError
from rocketlake.protocol.command import FLAG_ONEWAY, Command

__all__ = ["Asked", "InvokeTimeout"]


class InvokeTimeout(LinkError):
    """No answer in time. The request may or may not have been served."""


class Named(Protocol):
    """A peer, for the texts of errors."""

    address: str


class Asked:
    """Requests to one peer, by opaque. Times are monotonic seconds."""

    __slots__ = ("_clock", "_deadlines", "_opaques", "_peer", "_waiting", "_waiting_max", "_write")

    def __init__(self, peer: Named, write: Callable[[Command], object], waiting_max: int, clock: Clock) -> None:
        """`write` hands a numbered request to the link; it may raise ProtocolError."""
        self._peer = peer
        self._write = write
        self._waiting_max = waiting_max
        self._clock = clock
        self._opaques = itertools.count()
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._deadlines: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def send(self, command: Command) -> None:
        """Write a one-way request."""
        command.flag |= FLAG_ONEWAY
        command.opaque = next(self._opaques) & 0x7FFFFFFF
        self._write(command)

    def start(self, command: Command, timeout_ms: float) -> asyncio.Future[Command]:
        """Write a request; the future gets its answer, InvokeTimeout, or LinkError when the link closes."""
        waiting = self._waiting
        if len(waiting) >= self._waiting_max:
            raise LinkError(
                f"{len(waiting)} requests to {self._peer.address} wait for an answer",
                hint="send more slowly, or from more clients",
            )
        opaque = command.opaque = next(self._opaques) & 0x7FFFFFFF
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._write(command)
        waiting[opaque] = future
        heappush(self._deadlines, (self._clock.monotonic() + timeout_ms / 1000, opaque))
        if len(self._deadlines) > 2 * len(waiting) + 1024:
            # Deadlines of answered requests stay until they are due; without this a fast peer would let them pile up.
            self._deadlines = [entry for entry in self._deadlines if entry[1] in waiting]
            heapify(self._deadlines)
        return future

    def resolve(self, answer: Command) -> bool:
        """Hand an answer to the request that waits for it; False for an answer that comes late or was never asked."""
        future = self._waiting.pop(answer.opaque, None)
        if future is None or future.done():
            return False
        future.set_result(answer)
        return True

    def sweep(self, now: float) -> None:
        """Fail the requests whose deadline has passed with InvokeTimeout."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now:
            _, opaque = heappop(deadlines)
            future = self._waiting.pop(opaque, None)
            if future is not None and not future.done():
                future.set_exception(InvokeTimeout("no answer in time"))

    def fail_all(self, why: str) -> None:
        """Fail all waiting requests with LinkError: the link is gone."""
        waiting, self._waiting, self._deadlines = self._waiting, {}, []
        for future in waiting.values():
            if not future.done():
                future.set_exception(LinkError(why))
