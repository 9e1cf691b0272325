"""Pops that are not answered at once: those that wait for a message, and those that wait for a worker's read.

Owns        how long a pop waits and how many may, how one is taken up again.
Must not know   what is popped, what a pop finds, what wakes one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from rocketlake.base.clock import Clock
from rocketlake.broker.held.wait_list import Waiter, WaitList
from rocketlake.filter.tag import TagTest
from rocketlake.net.dispatcher import run_handler
from rocketlake.net.request import HELD, Handler, Held, Reply, Request
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import ColdPart

__all__ = ["LOADS_MAX", "Nothing", "WaitingPops", "left_ms"]

LOADS_MAX = 100
"""A pop is held for so many reads of a worker, one after the other."""
_TOO_OLD_MS = 500
_ANSWER_MS = 50
"""A pop or a notification is answered so long before its consumer gives up."""

_K = TypeVar("_K", bound=Hashable)


class Asked(Protocol):
    """The times of a pop's header, in ms."""

    born_time: int
    poll_time: int


class Nothing(Protocol):
    """What a pop found that found no message."""

    is_more: bool
    """Not all was looked at."""
    free_ms: int
    """When the first messages that are in flight may be handed out again; 0 if there are none."""


def left_ms(request: Request, asked: Asked, clock: Clock) -> int:
    """How long the request may wait from now on, ms; 0 or less: no longer.

    `born_time` is of the consumer's clock, and ours may have stepped: a message for a consumer that has given up would
    be hidden until its time is over. So nobody waits longer than the poll time behind its arrival.
    """
    by_birth = asked.born_time + asked.poll_time - clock.now_ms()
    by_arrival = asked.poll_time - int((clock.monotonic() - request.received) * 1000)
    return min(by_birth, by_arrival) - _ANSWER_MS


class WaitingPops(Generic[_K]):
    """Of one kind."""

    def __init__(
        self, store: MessageStore, hold: WaitList[_K], clock: Clock, held_of_queue_max: Callable[[], int]
    ) -> None:
        self._held_of_queue_max = held_of_queue_max
        self._store = store
        self._hold = hold
        self._clock = clock

    def begin(self, asked: Asked) -> Reply | None:
        """Note when the pop came, if it does not say so itself. A reply if its consumer has given it up."""
        if asked.born_time <= 0:
            asked.born_time = self._clock.now_ms()
        if self.is_given_up(asked.born_time, asked.poll_time):
            return Reply(ResponseCode.POLLING_TIMEOUT, remark="the pop message is too old")
        return None

    def is_given_up(self, born_ms: int, poll_ms: int) -> bool:
        """True if the consumer waits no longer for a pop of this age. `born_ms` of 0 or less: it came now."""
        return born_ms > 0 and self._clock.now_ms() - born_ms - poll_ms > _TOO_OLD_MS

    def wait(
        self, request: Request, asked: Asked, key: _K, found: Nothing, again: Handler, match: TagTest | None = None
    ) -> ResponseCode | None:
        """Hold a pop at `key` until it is woken or its time is up, then serve it by `again`; or the code of its answer.

        `match`: the tag codes that concern it; None: any.
        """
        wait_ms = left_ms(request, asked, self._clock)
        if asked.poll_time <= 0 or wait_ms <= 0 or self._hold.is_closed:
            return ResponseCode.POLLING_TIMEOUT
        if not self._hold.has_room(request.asker) or self._hold.count_at(key) >= self._held_of_queue_max():
            return ResponseCode.POLLING_FULL
        if found.is_more:
            self.soon(request, again)
        else:
            if found.free_ms:  # it looks again when the first of them is free
                wait_ms = max(1, min(wait_ms, found.free_ms - self._clock.now_ms()))
            self._hold.hold(Waiter(key, -1, match, request.asker, partial(self._resume, request, again)), wait_ms)
        return None

    def load(self, request: Request, cold: Sequence[ColdPart], again: Handler) -> Held:
        """Serve the pop by `again` when a worker has read what it needs from disk."""

        def loaded(error: Exception | None) -> None:
            if error is not None:
                request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=f"the store cannot be read: {error}"))
            else:
                self.soon(request, again)

        self._store.load(cold, loaded)
        return HELD

    def soon(self, request: Request, again: Handler) -> None:
        """Serve the pop by `again` when its turn comes."""
        self._hold.resume_soon(partial(self._resume, request, again))

    def _resume(self, request: Request, again: Handler) -> None:
        """One whose consumer reads no answers takes no messages."""
        if request.asker.closed:
            return
        if self._hold.is_closed or not request.asker.writable:
            request.answer(Reply(ResponseCode.POLLING_TIMEOUT, remark="ask again"))
            return
        reply = run_handler(again, request)
        if isinstance(reply, Reply):
            request.answer(reply)
