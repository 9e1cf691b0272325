"""GET_WAITING_MESSAGES, GET_TIMER_METRICS: what waits in the timer wheel.

Owns        the walk over the wheel, which messages an answer holds, its limits.
Must not know   how messages enter the wheel or leave it, the bytes of the wheel.

The walk goes from tick to tick, so a list is in the order of the ticks. A message that waits longer than
timerRollWindowSlot is met at the tick at which it is stored anew; its time is that in its properties. Counts take it
for one of "later". What a message of the same tick takes back is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial

from rocketlake.base.callbacks import Step
from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError
from rocketlake.base.java.java_compat import string_hash
from rocketlake.broker.cold_requests import ColdRequests
from rocketlake.broker.delay.due_tick import recalled_by
from rocketlake.broker.delay.timer import Timer
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_id import RecallHandle
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.waiting import (
    TimerMetric,
    TimerMetrics,
    WaitingCount,
    WaitingMessage,
    WaitingMessages,
)
from rocketlake.protocol.headers.query import WaitingMessagesHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.timer.layout import DELETE, NOWHERE, ROLL, Unit

__all__ = ["Waiting"]

_ENTRIES_MAX = 1000
_UNITS_MAX = 200_000
"""Looked at for one answer; the next question goes on behind them."""
_UNITS_A_STEP = 256
_MINUTE_MS = 60_000
_NOBODY: set[tuple[str, str]] = set()


class Waiting:
    """Answers about messages that wait for their time."""

    def __init__(self, timer: Timer, cold_requests: ColdRequests, broker_name: Callable[[], str], clock: Clock) -> None:
        self._timer = timer
        self._cold_requests = cold_requests
        self._broker_name = broker_name
        self._clock = clock

    def messages(self, request: Request) -> ReplySteps:
        """GET_WAITING_MESSAGES."""
        header = request.header(WaitingMessagesHeader)
        answer = WaitingMessages()
        yield from self._look(request, header, answer, _UNITS_MAX)
        return Reply(body=answer.encode())

    def metrics(self, request: Request) -> ReplySteps:
        """GET_TIMER_METRICS."""
        answer = WaitingMessages()
        yield from self._look(request, WaitingMessagesHeader(limit=0), answer, None)
        now = self._clock.now_ms()
        version = DataVersionBody(counter=self._timer.edition, timestamp=now)
        counts = {topic: TimerMetric(count=each.total, time_stamp=now) for topic, each in answer.counts.items()}
        return Reply(body=TimerMetrics(data_version=version, timing_count=counts).encode())

    def _look(
        self, request: Request, header: WaitingMessagesHeader, answer: WaitingMessages, units_max: int | None
    ) -> Generator[Step, None, None]:
        if not self._timer.is_running:
            raise RemoteError(
                "no timer runs on this broker",
                code=ResponseCode.SYSTEM_ERROR,
                hint="set timerWheelEnable=true at the broker, or ask the master of its group",
            )
        walk = _Walk(self, request, header, answer)
        timers = self._timer.wheel
        tick = max(header.tick, self._timer.next_tick)
        end = self._clock.now_ms() + timers.horizon_ms
        while tick < min(end, header.to_ms):
            place = timers.newest_place(tick)
            while place != NOWHERE:
                piece, before = timers.chain(place, 1)
                if not piece:
                    break
                (unit,) = piece
                is_new = tick != header.tick or header.place < 0 or place <= header.place
                if is_new and (walk.is_full or walk.looked == units_max):
                    answer.tick, answer.place = tick, place
                    return
                yield from walk.take(unit, is_new=is_new)
                place = before
            walk.taken_back = set()
            tick = timers.next_filled(tick + timers.precision_ms, end)
            yield

    def entry(self, message: StoredMessage, due_ms: int) -> WaitingMessage:
        """The entry of a list."""
        topic, key = message.properties.get(names.REAL_TOPIC, ""), message.message_id
        handle = RecallHandle(topic, self._broker_name(), str(due_ms + 1), key)
        return WaitingMessage(
            due=self.due(due_ms),
            topic=topic,
            id=key,
            keys=message.keys or "",
            tag=message.tags or "",
            body_bytes=len(message.body),
            recall_handle=handle.to_text(),
        )

    def due(self, tick_ms: int) -> int:
        """When what is kept at a tick is due: the timer keeps it one tick early."""
        return tick_ms + self._timer.wheel.precision_ms

    def read(self, request: Request, unit: Unit) -> Generator[Step, None, StoredMessage | None]:
        """The message of a unit; None if it is gone."""
        found = yield from self._cold_requests.read(request, partial(self._timer.message_of, unit))
        return None if found is None else found[0]

    @property
    def now_ms(self) -> int:
        """The time."""
        return self._clock.now_ms()


class _Walk:
    """What one request has met."""

    def __init__(
        self, waiting: Waiting, request: Request, header: WaitingMessagesHeader, answer: WaitingMessages
    ) -> None:
        self.looked = 0
        self.taken_back = _NOBODY
        """(topic, unique key) of what is taken back of the tick; a tick is walked from its newest message on."""
        self._waiting = waiting
        self._request = request
        self._header = header
        self._answer = answer
        self._limit = min(header.limit, _ENTRIES_MAX)
        self._hash = None if header.topic is None else string_hash(header.topic)
        self._topics: dict[int, str] = {}
        self._now_ms = waiting.now_ms

    @property
    def is_full(self) -> bool:
        """True when the answer holds what it may hold."""
        return 0 < self._limit <= len(self._answer.messages)

    def take(self, unit: Unit, *, is_new: bool) -> Generator[Step, None, None]:
        """Look at a unit; not `is_new`: it is in an answer already."""
        self.looked += 1
        if self.looked % _UNITS_A_STEP == 0:
            yield
        if self._hash is not None and unit.topic_hash != self._hash:
            return
        if unit.bits & DELETE:
            message = yield from self._waiting.read(self._request, unit)
            if message is not None and (named := recalled_by(message)) not in self.taken_back:
                self.taken_back = self.taken_back | {named}
                if is_new and self._limit <= 0:
                    self._count(unit, named[0], -1)
        elif not is_new:
            return
        elif self._limit > 0:
            yield from self._list(unit)
        else:
            name = self._topics.get(unit.topic_hash)
            if name is None:
                message = yield from self._waiting.read(self._request, unit)
                name = "" if message is None else message.properties.get(names.REAL_TOPIC, "")
                self._topics[unit.topic_hash] = name
            self._count(unit, name, 1)

    def _list(self, unit: Unit) -> Generator[Step, None, None]:
        message = yield from self._waiting.read(self._request, unit)
        if message is None:
            return
        topic = message.properties.get(names.REAL_TOPIC, "")
        if (topic, message.message_id) in self.taken_back or self._header.topic not in (None, topic):
            return
        entry = self._waiting.entry(message, int(message.properties.get(names.TIMER_OUT_MS, "0")))
        if self._header.from_ms <= entry.due < self._header.to_ms:
            self._answer.messages.append(entry)

    def _count(self, unit: Unit, topic: str, more: int) -> None:
        due = self._waiting.due(unit.due_ms)
        left_ms = due - self._now_ms
        if not self._header.from_ms <= due < self._header.to_ms:
            return
        count = self._answer.counts.setdefault(topic, WaitingCount(first_due=due))
        count.first_due = min(count.first_due, due)
        if unit.bits & ROLL or left_ms >= 1440 * _MINUTE_MS:
            count.later += more
        elif left_ms >= 60 * _MINUTE_MS:
            count.day += more
        elif left_ms >= _MINUTE_MS:
            count.hour += more
        else:
            count.minute += more
