"""SQL92 subscriptions, as pulls use them.

Owns        which filters the broker serves, the test of a subscription, how long one read may test records, whether
            a message that arrives wakes a pull.
Must not know   requests, answers, how records are found.

Rules: RocketMQ's ConsumerFilterManager and ExpressionMessageFilter; docs/internals/sql92.md. Records are tested on the
loop, while other requests wait. So a read that finds little ends after SCAN_SECONDS, and the consumer's next pull goes
on there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from rocketlake.base.clock import Clock
from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.filter.sql_record import RecordTest
from rocketlake.model.positions import QueueOffset
from rocketlake.model.subscription import SQL92, Subscription
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetResult, GetStatus

__all__ = ["SCAN_SECONDS", "Arrivals", "TimedTest", "read_tested", "record_test", "unserved"]

SCAN_SECONDS = 0.001
_BYTES_OF_ONE = 1
"""Bytes to look for when a pull is only to be woken: the first record that matches is enough."""


def unserved(subscription: Subscription, *, enabled: bool) -> str:
    """Why the broker does not serve this filter; empty if it does. `enabled`: enablePropertyFilter."""
    if subscription.is_tag_type or (enabled and subscription.expression_type == SQL92):
        return ""
    return f"The broker does not support consumer to filter message by {subscription.expression_type}"


@lru_cache(maxsize=128)
def record_test(expression: str) -> RecordTest:
    """The test of an SQL92 expression; UsageError for one that cannot be read."""
    return RecordTest(parse_sql92(expression))


class TimedTest:
    """The test for one read."""

    __slots__ = ("_clock", "_end", "_matches")

    def __init__(self, test: RecordTest, clock: Clock) -> None:
        self._matches = test.matches
        self._clock = clock
        self._end = 0.0

    def __call__(self, record: memoryview) -> bool | None:
        """True if the record matches; None when the time is up. The first record is tested in any case."""
        now = self._clock.monotonic()
        if self._end == 0.0:
            self._end = now + SCAN_SECONDS
        elif now > self._end:
            return None
        return self._matches(record)


def read_tested(
    store: MessageStore, clock: Clock, asked: tuple[str, int, QueueOffset, int, int], test: RecordTest, *, wait: bool
) -> GetResult:
    """Read `asked` (topic, queue id, offset, most messages, most bytes), as MessageStore.get does.

    A record must be in memory to be tested. The read ends before the first one that is not.
    """
    result = store.get(*asked, match_record=TimedTest(test, clock), wait=False)
    if result.status is not GetStatus.NOT_IN_MEMORY:
        return result
    if result.next_offset > asked[2]:
        return replace(result, status=GetStatus.NO_MATCHED_MESSAGE)
    return store.get(*asked, match_record=TimedTest(test, clock)) if wait else result


class Arrivals:
    """The messages that arrive while a pull with an SQL92 filter is held at a queue; each is tested once."""

    __slots__ = ("_clock", "_offset", "_queue_id", "_store", "_test", "_topic")

    def __init__(
        self, store: MessageStore, clock: Clock, topic: str, queue_id: int, offset: QueueOffset, test: RecordTest
    ) -> None:
        """`offset`: where the pull starts."""
        self._store = store
        self._clock = clock
        self._topic = topic
        self._queue_id = queue_id
        self._offset = offset
        self._test = test

    def is_wanted(self, _tag_code: int) -> bool:
        """True, which wakes the pull, if a message matches, or if that cannot be told now."""
        test = TimedTest(self._test, self._clock)
        result = self._store.get(
            self._topic, self._queue_id, self._offset, 1, _BYTES_OF_ONE, match_record=test, wait=False
        )
        if result.status is not GetStatus.NO_MATCHED_MESSAGE:
            return True
        self._offset = result.next_offset
        return self._offset < result.max_offset
