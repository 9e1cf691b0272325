"""Runs: the plain requests that all links bring in one turn of the loop, one piece of frames for each broker.

Owns        the lines of a turn, who gets which answer, what becomes of a request that cannot be asked so.
Must not know   what the requests say, which of them are plain.

A broker's kernels serve such a piece as a run; one in this process answers in the same turn. It is asked on its link,
so its limits, quotas and refusals are those of every client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from rocketlake.base.errors import LinkError, RocketLakeError
from rocketlake.net.client import NetClient
from rocketlake.net.client_link import ClientLink
from rocketlake.net.request import FrameAsker
from rocketlake.protocol.command import Command
from rocketlake.proxy.convert.plain_answers import succeeded
from rocketlake.proxy.http2.call import Call

__all__ = ["PlainCall", "Runs", "Writes", "serve", "take_answers"]


class PlainCall:
    """A call that asks a broker one plain thing. Implements net.asked.Waiter."""

    __slots__ = ("call", "request")

    def __init__(self, call: Call, request: bytes) -> None:
        self.call = call
        self.request = request

    def done(self) -> bool:
        """See Waiter. The broker does what it was asked also when the caller has gone."""
        return False

    def set_result(self, answer: Command) -> None:
        """See Waiter: an answer that is no plain success."""
        raise NotImplementedError

    def set_exception(self, error: LinkError) -> None:
        """See Waiter."""
        raise NotImplementedError

    def succeed(self, queue_offset: int, transaction_id: bytes, recall_handle: bytes) -> bool:
        """The broker says SUCCESS, and this; an offset of -1: none. False: `set_result` must look at the answer."""
        raise NotImplementedError

    def give_up(self) -> None:
        """It was not asked: the ordinary way does, unless the caller has gone."""
        raise NotImplementedError


class Writes(Protocol):
    """The links to clients: they write what they have when they are told to (http2/link.py, Flushes)."""

    def hold(self) -> None:
        """`now` follows in this turn."""

    def now(self) -> None:
        """Write."""


P = TypeVar("P", bound=PlainCall)


class Runs(Generic[P]):
    """Of one kind of calls."""

    def __init__(
        self,
        net: NetClient,
        make: Callable[[list[P], int], bytes],
        writes: Writes,
        at_end: Callable[[], object] = lambda: None,
    ) -> None:
        """`make`: the frames of these calls, numbered from its second argument on. `at_end`: the turn is over."""
        self._net = net
        self._make = make
        self._writes = writes
        self._at_end = at_end
        self._is_begun = False
        self._lines: dict[str, list[tuple[P, float]]] = {}

    def begin(self) -> None:
        """A turn begins, unless one has: `at_end` will be called."""
        if not self._is_begun:
            self._is_begun = True
            asyncio.get_running_loop().call_soon(self._ask)

    def add(self, address: str, call: P, until: float) -> None:
        """Ask this address at the end of the turn, and wait for the answer until this monotonic time."""
        line = self._lines.get(address)
        if line is None:
            self.begin()
            line = self._lines[address] = []
        line.append((call, until))

    def _ask(self) -> None:
        lines, self._lines, self._is_begun = self._lines, {}, False
        self._at_end()
        self._writes.hold()
        try:
            for address, line in lines.items():
                self._ask_one(address, line)
        finally:
            self._writes.now()

    def _ask_one(self, address: str, line: list[tuple[P, float]]) -> None:
        calls = [call for call, _ in line]
        try:
            is_asked = self._net.start_run(address, line, partial(self._make, calls))
        except LinkError:
            is_asked = False
        if not is_asked:
            for call in calls:
                call.give_up()


def serve(
    take: Callable[[Call, bytes], bool], ordinary: Callable[[Call, bytes], object], call: Call, message: bytes
) -> None:
    """Put a call into a run, or serve it the ordinary way if `take` does not: that one says what is wrong, too."""
    try:
        is_taken = take(call, message)
    except RocketLakeError:
        is_taken = False
    if not is_taken:
        ordinary(call, message)


def take_answers(link: FrameAsker, ready: bytes, position: int, _turn_end: float) -> int:
    """The server of runs of links to brokers (Dispatcher.serve_runs): answers that say SUCCESS to plain calls."""
    assert isinstance(link, ClientLink)
    while (answer := succeeded(ready, position)) is not None:
        opaque, end, queue_offset, transaction_id, recall_handle = answer
        waiter = link.asked.waiter(opaque)
        if not isinstance(waiter, PlainCall) or not waiter.succeed(queue_offset, transaction_id, recall_handle):
            break
        link.asked.forget(opaque)
        position = end
    return position
