"""Delivers delayed messages when they are due.

Owns        one delivering loop for each delay level.
Must not know   requests, producers.

Queue k - 1 of the delay topic holds level k in order of storing, so its first message is the next one due: a loop
sleeps until then, or until a message comes into an empty queue. Levels do not wait for each other.

Rules (RocketMQ's ScheduleMessageService):

- The time of delivery is the tag code of the queue entry. A time further away than the level's delay is due now: the
  wall clock was set back.
- A message that cannot be stored now is tried again after 100 ms; the level waits for it.

A start asks the log for copies behind the saved progress, so that a change of the master delivers nothing twice
(delivered.py). Before that the log must be dispatched up to its end at the start, which in a group is when it is
confirmed; no copy could be read before.

What is delivered, and as what: delivery.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.broker.delay.delivered import DeliveredBefore
from rocketlake.broker.delay.delivery import GONE, Delivery
from rocketlake.broker.delay.parking import real_target
from rocketlake.broker.delay.progress import DelayProgress
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.topic import DELAY_TOPIC
from rocketlake.store.message_store import MessageStore

__all__ = ["DelaySchedule"]

_log = get_logger(__name__)

_BATCH = 32
"""Deliveries of one level before other work gets a turn."""
_RETRY_MS = 100
_LONGEST_SLEEP_MS = 60_000
"""The sleep runs by the monotonic clock; the wall clock may be set meanwhile, so it is read at least this often."""


@dataclass(frozen=True, slots=True)
class _Pause:
    """How long a level may rest; None: until a message comes."""

    ms: int | None


_NOW = _Pause(0)


class DelaySchedule(Service):
    """All delay levels of a broker."""

    def __init__(
        self,
        store: MessageStore,
        levels: DelayLevels,
        progress: DelayProgress,
        clock: Clock,
        readable: Callable[[str, int], int] = lambda _topic, queue_id: queue_id,
        count_put: Callable[[str, int, int], None] = lambda _topic, _count, _size: None,
    ) -> None:
        """`readable`: (topic, queue id) -> a queue that consumers read; `count_put`: counts the copies stored."""
        super().__init__("delay-schedule", clock)
        self._delivery = Delivery(store, DELAY_TOPIC, clock, readable, count_put)
        self._store = store
        self._levels = levels
        self._progress = progress
        self._log_end = PhysicalOffset(0)
        """The end of the log at the start."""
        self._before = DeliveredBefore(store, (), self._log_end)
        self._arrivals = {level: asyncio.Event() for level in range(1, levels.highest + 1)}

    async def start(self) -> None:
        """Start to deliver. Messages that fell due while the broker was down are delivered at once."""
        await super().start()
        self._log_end = self._store.max_physical_offset
        self._before = DeliveredBefore(self._store, self._arrivals, self._log_end)
        for level in self._arrivals:
            self.keep(f"level-{level}", partial(self._deliver_next, level))

    def message_parked(self, queue_id: int) -> None:
        """A message came into a queue of the delay topic."""
        arrival = self._arrivals.get(queue_id + 1)
        if arrival is not None:
            arrival.set()

    def waiting(self) -> dict[int, tuple[int, int]]:
        """Level -> (next offset, end of its queue), for the levels that ever held a message."""
        ends = {level: self._store.max_offset(DELAY_TOPIC, level - 1) for level in self._arrivals}
        return {level: (self._progress.next_offset(level), end) for level, end in ends.items() if end > 0}

    async def _deliver_next(self, level: int) -> None:
        arrival = self._arrivals[level]
        arrival.clear()
        # After an hour the records may lie on disk only. What was delivered before a wait for them is noted.
        pause = await self._store.read(partial(self.deliver_due, level))
        if pause.ms is None:
            await arrival.wait()
        else:
            await self._clock.sleep(min(pause.ms, _LONGEST_SLEEP_MS) / 1000)

    def deliver_due(self, level: int) -> _Pause:
        """Deliver the messages that are due, at most a batch; returns how long to rest afterwards."""
        if not self._store.is_complete or self._store.dispatched_offset < self._log_end:
            return _Pause(_RETRY_MS)  # the end of the queue, or what was delivered before, is not known yet
        offset = self._first_offset(level)
        entries = self._store.queue_entries(DELAY_TOPIC, level - 1, QueueOffset(offset), _BATCH)
        if not entries:
            return _Pause(None)
        for physical_offset, _size, due_ms in entries:
            wait_ms = due_ms - self._clock.now_ms()
            if 0 < wait_ms <= self._levels.delay_ms(level):
                return _Pause(wait_ms)
            if self._store.log.is_late:
                return _Pause(_RETRY_MS)  # a put would have the loop wait for the next file of the log
            log_offset = self._deliver(level, physical_offset, offset)
            if log_offset is None:
                return _Pause(_RETRY_MS)
            offset += 1
            self._progress.move(level, offset, log_offset)
        return _NOW

    def _first_offset(self, level: int) -> int:
        """The next offset, moved into the queue if it lies outside."""
        low = max(0, self._store.min_offset(DELAY_TOPIC, level - 1))
        high = self._store.max_offset(DELAY_TOPIC, level - 1)
        offset = self._progress.next_offset(level)
        inside = min(max(offset, low), max(high, low))
        if inside != offset:
            _log.warning("delay level %d: offset %d is outside %d..%d", level, offset, low, high)
            self._progress.move(level, inside)
        return inside

    def _deliver(self, level: int, physical_offset: PhysicalOffset, queue_offset: int) -> int | None:
        """See Delivery.deliver; an entry may only fill a gap that a recovery left."""
        found = self._delivery.read(physical_offset)
        if found is None or found[0].queue_offset != queue_offset:
            return GONE
        target = real_target(found[0].properties)
        return self._delivery.deliver(*found, target, self._before, level)
