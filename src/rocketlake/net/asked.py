"""Asked: our requests on one link that wait for their answers.

Owns        the numbers of requests (opaque), their deadlines, the limit on waiting ones.
Must not know   sockets, timers (sweeper.py calls `sweep`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError
from rocketlake.protocol.command import FLAG_ONEWAY, Command

__all__ = ["Asked", "InvokeTimeout", "LinkLost", "Waiter"]


_OPAQUE_MAX: Final = 0x7FFFFFFF


class InvokeTimeout(LinkError):
    """No answer in time. The request may or may not have been served."""


class LinkLost(LinkError):
    """There was a connection, and it ended. A request that was written may or may not have been served."""


class Named(Protocol):
    """A peer, for the texts of errors."""

    address: str


class Waiter(Protocol):
    """Gets the answer to one request: a future, or what is lighter than one."""

    def done(self) -> bool:
        """True when it wants no answer any more."""
        ...

    def set_result(self, answer: Command, /) -> None:
        """The answer. Must not raise."""

    def set_exception(self, error: LinkError, /) -> None:
        """InvokeTimeout, or LinkLost when the link closes. Must not raise."""


class Asked:
    """Requests to one peer, by opaque. Times are monotonic seconds."""

    __slots__ = ("_clock", "_deadlines", "_next", "_peer", "_waiting", "_waiting_max", "_write")

    def __init__(self, peer: Named, write: Callable[[Command], object], waiting_max: int, clock: Clock) -> None:
        """`write` hands a numbered request to the link; it may raise ProtocolError."""
        self._peer = peer
        self._write = write
        self._waiting_max = waiting_max
        self._clock = clock
        self._next = 0
        self._waiting: dict[int, Waiter] = {}
        self._deadlines: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def send(self, command: Command) -> None:
        """Write a one-way request."""
        command.flag |= FLAG_ONEWAY
        command.opaque = self._take_numbers(1)
        self._write(command)

    def start(self, command: Command, timeout_ms: float) -> asyncio.Future[Command]:
        """Write a request; the future gets its answer, InvokeTimeout, or LinkLost when the link closes."""
        self._check_room(1)
        opaque = command.opaque = self._take_numbers(1)
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._write(command)
        self._waiting[opaque] = future
        heappush(self._deadlines, (self._clock.monotonic() + timeout_ms / 1000, opaque))
        self._tidy()
        return future

    def expect(self, waiters: Sequence[tuple[Waiter, float]], make: Callable[[int], bytes]) -> bytes:
        """The frames of a request for each waiter, which the caller writes now.

        `waiters`: what gets the answer, and the monotonic time until which it waits. `make` gives the frames, back to
        back, numbered from its argument on. LinkError: too many wait, none of these is asked.
        """
        self._check_room(len(waiters))
        first = self._take_numbers(len(waiters))
        frames = make(first)
        for opaque, (waiter, deadline) in enumerate(waiters, first):
            self._waiting[opaque & _OPAQUE_MAX] = waiter
            heappush(self._deadlines, (deadline, opaque & _OPAQUE_MAX))
        self._tidy()
        return frames

    def waiter(self, opaque: int) -> Waiter | None:
        """What waits for the answer of this number."""
        return self._waiting.get(opaque)

    def forget(self, opaque: int) -> None:
        """The request of this number is answered."""
        del self._waiting[opaque]

    def _check_room(self, count: int) -> None:
        if len(self._waiting) + count > self._waiting_max:
            raise LinkError(
                f"{len(self._waiting)} requests to {self._peer.address} wait for an answer",
                hint="send more slowly, or from more clients",
            )

    def _take_numbers(self, count: int) -> int:
        first, self._next = self._next, (self._next + count) & _OPAQUE_MAX
        return first

    def _tidy(self) -> None:
        """Deadlines of answered requests stay until they are due; without this a fast peer would let them pile up."""
        if len(self._deadlines) > 2 * len(self._waiting) + 1024:
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._waiting]
            heapify(self._deadlines)

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
        """Fail all waiting requests with LinkLost: the link is gone."""
        waiting, self._waiting, self._deadlines = self._waiting, {}, []
        for future in waiting.values():
            if not future.done():
                future.set_exception(LinkLost(why))
