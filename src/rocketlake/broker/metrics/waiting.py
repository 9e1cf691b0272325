"""Messages that wait: for a time, for the end of their transaction.

Owns        these families, how often the wheel is counted.
Must not know   how the wheel lies on disk, how a transaction ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncGenerator
from functools import partial
from typing import Final

from rocketlake.base.clock import Clock
from rocketlake.base.errors import StoreError
from rocketlake.broker.delay.schedule import DelaySchedule
from rocketlake.broker.delay.timer import Timer
from rocketlake.broker.metrics.labels import STORAGE
from rocketlake.broker.transaction.ledger import HalfLedger
from rocketlake.model.topic import HALF_TOPIC
from rocketlake.net.http.exposition import Family, labels_text, number
from rocketlake.store.message_store import MessageStore

__all__ = ["WaitingMessages"]

_BOUNDS_SECONDS: Final = (5, 60, 300, 900, 3600, 14_400, 28_800, 86_400)
"""Apache's classes of the time that is left."""
_COUNT_SECONDS: Final = 30.0
_REST: Final = 100
"""The wheel is counted again after so many times the time that its count took."""


class WaitingMessages:
    """Of one broker."""

    def __init__(
        self, store: MessageStore, schedule: DelaySchedule, timer: Timer, ledger: HalfLedger, clock: Clock
    ) -> None:
        self._store = store
        self._schedule = schedule
        self._timer = timer
        self._ledger = ledger
        self._clock = clock
        self._counts: list[tuple[int, int]] = []
        self._next_count = 0.0

    async def families(self) -> AsyncGenerator[Family, None]:
        """The wheel is counted by a worker, and not at each scrape."""
        levels = self._schedule.waiting().items()
        delayed = [(labels_text({"level": level}), max(0, end - at)) for level, (at, end) in levels]
        yield Family("rocketlake_delayed_messages", "gauge", "Messages that wait for a delay level", delayed)
        figures = self._timer.figures()
        lag, late = int(figures["timerOffsetBehind"]), int(figures["timerReadBehind"])
        yield Family("rocketmq_timer_enqueue_lag", "gauge", "Messages not in the wheel yet", [(STORAGE, lag)])
        text = "How late messages for a time are delivered"
        yield Family("rocketmq_timer_dequeue_latency", "gauge", text, [(STORAGE, late * 1000)], "milliseconds")
        for family in await self._wheel():
            yield family
        async for family in self._halves():
            yield family

    async def _wheel(self) -> list[Family]:
        began = self._clock.monotonic()
        if began >= self._next_count:
            try:
                self._counts = await self._timer.counts()
            except (OSError, StoreError):
                self._counts = []
            ended = self._clock.monotonic()
            self._next_count = ended + max(_COUNT_SECONDS, (ended - began) * _REST)
        now = self._clock.now_ms()
        classes = [0] * (len(_BOUNDS_SECONDS) + 1)
        for due_ms, count in self._counts:
            classes[bisect_left(_BOUNDS_SECONDS, max(0, due_ms - now) / 1000)] += count
        samples = [
            (f'{STORAGE},timer_bound_s="{bound}"', count)
            for bound, count in zip(_BOUNDS_SECONDS, classes, strict=False)
        ]
        text = "Messages for a time by the time that is left"
        return [
            Family("rocketmq_timer_message_snapshot", "gauge", text, samples),
            number("rocketlake_timer_messages", "Messages that wait for a time", sum(classes)),
        ]

    async def _halves(self) -> AsyncGenerator[Family, None]:
        end = self._store.next_offset(HALF_TOPIC, 0)
        is_known = self._ledger.is_known
        count = self._ledger.count_open(end) if is_known else 0
        yield number("rocketlake_half_messages", "Half messages whose transaction is open", count)
        age = 0.0
        if is_known and self._ledger.position < end:
            read = partial(self._store.store_ms_at, HALF_TOPIC, 0, self._ledger.position)
            try:
                stored = await self._store.read(read)
            except (OSError, StoreError):
                stored = None
            age = max(0, self._clock.now_ms() - stored) / 1000 if stored is not None and stored > 0 else 0.0
        yield number("rocketlake_half_oldest", "Age of the oldest of them", age, "seconds")
