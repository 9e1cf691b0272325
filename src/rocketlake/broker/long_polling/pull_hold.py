"""Where a pull waits until a message comes or its time is up.

Owns        the held pulls of each queue, their deadlines, the one timer that ends them.
Must not know   requests, answers, subscriptions: a held pull is a queue offset, a tag test and a call to make.

Invariant: a pull is held by exactly one queue, one asker and one deadline bucket, or by none.
Invariant: a pull that raises when it is resumed keeps no other from being resumed.
Rule: a message wakes a pull when it lies at or behind the offset the pull asked for and passes its tag test
(RocketMQ's PullRequestHoldService). A woken pull reads again and is answered, even if it finds nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from rocketlake.base.callbacks import call, raised
from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.filter.tag import TagTest
from rocketlake.net.request import Asker
from rocketlake.net.turns import Turns

__all__ = ["HeldPull", "PullHold"]

SWEEPS_PER_SECOND = 10
"""Deadlines are kept in buckets of a tenth of a second: a pull may be held that much longer than it asked for."""

_K = TypeVar("_K")


class HeldPull:
    """One waiting pull. `match=None`: every message wakes it. `resume` reads again and answers."""

    __slots__ = ("asker", "bucket", "from_offset", "match", "queue", "resume")

    def __init__(
        self,
        queue: tuple[str, int],
        from_offset: int,
        match: TagTest | None,
        asker: Asker,
        resume: Callable[[], None],
    ) -> None:
        self.queue = queue
        self.from_offset = from_offset
        self.match = match
        self.asker = asker
        self.resume = resume
        self.bucket = 0


class PullHold(Service):
    """All held pulls of a broker."""

    def __init__(self, clock: Clock, turns: Turns, held_max: int = 100_000) -> None:
        """`held_max`: pullThreadPoolQueueCapacity."""
        super().__init__("pull-hold", clock)
        self._turns = turns
        self._held_max = held_max
        self.is_closed = False
        self._woken: deque[Callable[[], None]] = deque()
        self._count = 0
        self._queues: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._askers: dict[Asker, dict[HeldPull, None]] = {}
        self._buckets: dict[int, dict[HeldPull, None]] = {}
        self._not_empty = asyncio.Event()

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """True if no further pull can be held."""
        return self._count >= self._held_max

    async def start(self) -> None:
        """Start to watch deadlines."""
        await super().start()
        self.keep("deadlines", self._watch)

    async def stop(self) -> None:
        """Answer every held pull, so that clients can turn to another broker at once. No pull is held afterwards."""
        self.is_closed = True
        self._resume_woken(math.inf)
        for bucket in sorted(self._buckets):
            self._end(bucket)
        await super().stop()

    def hold(self, pull: HeldPull, hold_ms: int) -> None:
        """Keep the pull for at most `hold_ms`."""
        pull.bucket = math.ceil((self._clock.monotonic() + hold_ms / 1000) * SWEEPS_PER_SECOND)
        self._queues.setdefault(pull.queue, {})[pull] = None
        self._buckets.setdefault(pull.bucket, {})[pull] = None
        of_asker = self._askers.get(pull.asker)
        if of_asker is None:
            of_asker = self._askers[pull.asker] = {}
            pull.asker.on_close.append(self._drop_asker)
        of_asker[pull] = None
        self._count += 1
        self._not_empty.set()

    def waits(self, topic: str, queue_id: int) -> bool:
        """True if a pull waits at this queue: the store then reports its arrivals."""
        return (topic, queue_id) in self._queues

    def message_arrived(self, topic: str, queue_id: int, max_offset: int, tag_code: int) -> None:
        """Wake the pulls that wait for a message of this tag in this queue; `max_offset` is the queue's new end."""
        held = self._queues.get((topic, queue_id))
        if held is None:
            return
        self._wake(
            [pull for pull in held if pull.from_offset < max_offset and (pull.match is None or pull.match(tag_code))]
        )

    def wake(self, topic: str, queue_id: int) -> None:
        """Wake every pull of this queue: its group's offset was reset, or its topic is gone."""
        self._wake(list(self._queues.get((topic, queue_id), ())))

    def wake_topic(self, topic: str) -> None:
        """The same for all queues of a topic."""
        for queue in [queue for queue in self._queues if queue[0] == topic]:
            self.wake(*queue)

    def wake_all(self) -> None:
        """The same for all queues."""
        for queue in list(self._queues):
            self.wake(*queue)

    def _wake(self, woken: list[HeldPull]) -> None:
        if not woken:
            return
        for pull in woken:
            self._take_out(pull)
        # Once for all messages of this turn of the loop: a batch that arrives is handed out as a batch.
        self._resume_soon(pull.resume for pull in woken)

    def resume_soon(self, resume: Callable[[], None]) -> None:
        """Call `resume` when its turn comes, behind the pulls woken before it."""
        self._resume_soon([resume])

    def _resume_soon(self, calls: Iterable[Callable[[], None]]) -> None:
        if not self._woken:
            self._turns.wait(self._resume_woken)
        self._woken.extend(calls)

    def expire(self) -> None:
        """End the holds whose time is up."""
        now = self._clock.monotonic() * SWEEPS_PER_SECOND
        for bucket in sorted(bucket for bucket in self._buckets if bucket <= now):
            self._end(bucket)

    async def _watch(self) -> None:
        if not self._buckets:
            self._not_empty.clear()
            await self._not_empty.wait()
        await self._clock.sleep(1 / SWEEPS_PER_SECOND)
        self.expire()

    def _resume_woken(self, turn_end: float) -> None:
        """Answer woken pulls until the turn ends: one batch may wake hundreds, and other requests want a turn, too."""
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
        # Empty if a pull that was resumed before has closed the askers of these.
        ended = list(self._buckets.get(bucket, ()))
        for pull in ended:
            self._take_out(pull)
        for pull in ended:
            call(pull.resume)

    def _take_out(self, pull: HeldPull) -> None:
        _remove(self._queues, pull.queue, pull)
        _remove(self._buckets, pull.bucket, pull)
        self._askers[pull.asker].pop(pull, None)
        self._count -= 1

    def _drop_asker(self, asker: Asker) -> None:
        for pull in list(self._askers[asker]):
            self._take_out(pull)
        del self._askers[asker]


def _remove(table: dict[_K, dict[HeldPull, None]], key: _K, pull: HeldPull) -> None:
    members = table[key]
    del members[pull]
    if not members:
        del table[key]
