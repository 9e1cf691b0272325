"""Waiters with a key, a deadline and an asker: held pulls, held pops.

Owns        the waiters of each key, of each asker and of each tenth of a second; the one timer that ends them.
Must not know   requests, answers, what a key and a position mean.

Invariant: a waiter stands in the lists of one key, one asker and one deadline, or in none.
Invariant: a waiter that raises when it is resumed keeps no other from being resumed.
Rule: a waiter is resumed once: when it is woken, when its time is up, or at stop. It is dropped when its asker closes.
Woken waiters are resumed in turns (net/turns.py), so that thousands of them do not keep other links waiting.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from rocketlake.base.callbacks import call, raised
from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.filter.tag import TagTest
from rocketlake.net.request import Asker
from rocketlake.net.shares import Shares, owner_of
from rocketlake.net.turns import Turns

__all__ = ["SWEEPS_PER_SECOND", "WaitList", "Waiter"]

SWEEPS_PER_SECOND = 10
"""Deadlines are kept in buckets of a tenth of a second; a wait may last that much longer than asked."""

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T", bound=Hashable)


class Waiter(Generic[_K]):
    """Waits at a key for a number above `position` whose tag code passes `match`. `resume` makes the answer."""

    __slots__ = ("asker", "bucket", "key", "match", "owner", "position", "resume")

    def __init__(self, key: _K, position: int, match: TagTest | None, asker: Asker, resume: Callable[[], None]) -> None:
        """`match=None`: any tag code will do."""
        self.key = key
        self.position = position
        self.match = match
        self.asker = asker
        self.resume = resume
        self.bucket = 0
        self.owner = owner_of(asker)


class WaitList(Service, Generic[_K]):
    """All waiters of one kind."""

    def __init__(
        self, name: str, clock: Clock, turns: Turns, waiting_max: int, waiting_of_one_max: int | None = None
    ) -> None:
        """`waiting_of_one_max`: most waiters of one user or host; None: one may have all."""
        super().__init__(name, clock)
        self.is_closed = False
        self.shares = Shares(waiting_max, waiting_of_one_max)
        """The places of waiters; others may take some of them for what waits elsewhere."""
        self._turns = turns
        self._woken: deque[Callable[[], None]] = deque()
        self._count = 0
        self._keys: dict[_K, dict[Waiter[_K], None]] = {}
        self._askers: dict[Asker, dict[Waiter[_K], None]] = {}
        self._buckets: dict[int, dict[Waiter[_K], None]] = {}
        self._not_empty = asyncio.Event()

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """True when there is no room for another waiter. The caller of `hold` looks first."""
        return self.shares.is_full

    def has_room(self, asker: Asker) -> bool:
        """May one more of this user, or this host, wait?"""
        return self.shares.has_room(owner_of(asker))

    async def start(self) -> None:
        """Begin to watch deadlines."""
        await super().start()
        self.keep("deadlines", self._watch)

    async def stop(self) -> None:
        """Resume all waiters, so that clients can turn to another broker at once; nobody waits after it."""
        self.is_closed = True
        self._resume_woken(math.inf)
        for bucket in sorted(self._buckets):
            self._end(bucket)
        await super().stop()

    def hold(self, waiter: Waiter[_K], hold_ms: int) -> None:
        """Keep the waiter for at most `hold_ms`."""
        waiter.bucket = math.ceil((self._clock.monotonic() + hold_ms / 1000) * SWEEPS_PER_SECOND)
        self._keys.setdefault(waiter.key, {})[waiter] = None
        self._buckets.setdefault(waiter.bucket, {})[waiter] = None
        of_asker = self._askers.get(waiter.asker)
        if of_asker is None:
            of_asker = self._askers[waiter.asker] = {}
            waiter.asker.on_close.append(self._drop_asker)
        of_asker[waiter] = None
        self._count += 1
        self.shares.take(waiter.owner)
        self._not_empty.set()

    def has_waiters(self, key: _K) -> bool:
        """True while a waiter stands at this key. Only then is a call of `reached` worth its cost."""
        return key in self._keys

    def keys(self) -> list[_K]:
        """The keys that have waiters."""
        return list(self._keys)

    def reached(self, key: _K, end: int, tag_code: int) -> None:
        """The numbers of this key end at `end` now, and the last one has this tag code: wake those it concerns."""
        waiters = self._keys.get(key)
        if waiters is None:
            return
        self._wake(
            [waiter for waiter in waiters if waiter.position < end and (waiter.match is None or waiter.match(tag_code))]
        )

    def wake(self, key: _K) -> None:
        """Wake all that wait at this key, because what they wait for has changed."""
        self._wake(list(self._keys.get(key, ())))

    def wake_one(self, key: _K, tag_code: int | None = None) -> None:
        """Wake the waiter that has waited longest at this key; with a tag code, of those it concerns."""
        for waiter in self._keys.get(key, ()):
            if tag_code is None or waiter.match is None or waiter.match(tag_code):
                self._wake([waiter])
                return

    def count_at(self, key: _K) -> int:
        """How many wait at this key."""
        return len(self._keys.get(key, ()))

    def _wake(self, woken: list[Waiter[_K]]) -> None:
        if not woken:
            return
        for waiter in woken:
            self._take_out(waiter)
        # Once for all messages of this turn of the loop: a batch that comes in is handed out as a batch.
        self._resume_soon(waiter.resume for waiter in woken)

    def resume_soon(self, resume: Callable[[], None]) -> None:
        """Call `resume` as if it were that of a woken waiter: when its turn comes."""
        self._resume_soon([resume])

    def expire(self) -> None:
        """Resume the waiters whose time is up."""
        now = self._clock.monotonic() * SWEEPS_PER_SECOND
        for bucket in sorted(bucket for bucket in self._buckets if bucket <= now):
            self._end(bucket)

    async def _watch(self) -> None:
        if not self._buckets:
            self._not_empty.clear()
            await self._not_empty.wait()
        await self._clock.sleep(1 / SWEEPS_PER_SECOND)
        self.expire()

    def _resume_soon(self, calls: Iterable[Callable[[], None]]) -> None:
        if not self._woken:
            self._turns.wait(self._resume_woken)
        self._woken.extend(calls)

    def _resume_woken(self, turn_end: float) -> None:
        """Resume woken waiters for one turn: thousands may wait for one batch, and other links want to be served."""
        while self._woken:
            resume = self._woken.popleft()
            try:
                resume()
            except Exception as error:
                raised(resume, error)
            if self._woken and self._clock.monotonic() > turn_end:
                self._turns.wait(self._resume_woken)
                break

    def _end(self, bucket: int) -> None:
        # Empty if a waiter that was resumed before it has closed their askers.
        ended = list(self._buckets.get(bucket, ()))
        for waiter in ended:
            self._take_out(waiter)
        for waiter in ended:
            call(waiter.resume)

    def _take_out(self, waiter: Waiter[_K]) -> None:
        _remove(self._keys, waiter.key, waiter)
        _remove(self._buckets, waiter.bucket, waiter)
        self._askers[waiter.asker].pop(waiter, None)
        self._count -= 1
        self.shares.give(waiter.owner)

    def _drop_asker(self, asker: Asker) -> None:
        for waiter in list(self._askers[asker]):
            self._take_out(waiter)
        del self._askers[asker]


def _remove(table: dict[_T, dict[Waiter[_K], None]], key: _T, waiter: Waiter[_K]) -> None:
    waiters = table[key]
    del waiters[waiter]
    if not waiters:
        del table[key]
