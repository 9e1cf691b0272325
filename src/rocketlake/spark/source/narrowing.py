"""The filters of a batch query, as queues, offsets, times and tags that must be read.

Owns        the choice of filters that are taken whole and of those that only narrow the read, the ranges that remain.
Must not know   Spark's filter classes (pushdown.py takes them apart), the network.

Taken whole: topic, brokerName, queueId, queueOffset, and tags, which the broker filters and the reader compares again.
storeTimestamp narrows the ranges, and Spark filters the rows again. So do keys and msgId, but only with keyIndex: a
broker's index works by a hash and may have been switched off for a while, which a reader cannot see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.pushdown import Comparison, epoch_micros
from rocketlake.spark.source.offsets import Offsets
from rocketlake.spark.source.plan import QueueRange

__all__ = ["Narrowing"]

_OFFSETS_MAX = 1000
_KEYS_MAX = 32
_LOW, _HIGH = -(2**63), 2**63


@dataclass
class _Span:
    """Whole numbers from `low` up to, not including, `high`; of these only `only`, if it is given."""

    low: int = _LOW
    high: int = _HIGH
    only: frozenset[int] | None = None

    def take(self, sign: str, values: tuple[int, ...]) -> None:
        if sign in ("=", "in"):
            self.only = frozenset(values) if self.only is None else self.only & frozenset(values)
        elif sign in (">", ">="):
            self.low = max(self.low, values[0] + (sign == ">"))
        else:
            self.high = min(self.high, values[0] + (sign == "<="))

    def __contains__(self, number: int) -> bool:
        return self.low <= number < self.high and (self.only is None or number in self.only)


@dataclass
class Narrowing:
    """The filters taken so far."""

    tags: frozenset[str] | None = None
    indexed: dict[str, frozenset[str]] = field(default_factory=dict)
    """`keys` and `msgId` that were asked for, to be looked up in the brokers' index if the options say so."""
    _names: dict[str, frozenset[str]] = field(default_factory=dict)
    _queue_ids: _Span = field(default_factory=_Span)
    _offsets: _Span = field(default_factory=_Span)
    _millis: _Span = field(default_factory=_Span)

    def take(self, wanted: Comparison, *, may_filter_tags: bool) -> bool:
        """Use a filter; True if Spark need not apply it again."""
        values = wanted.values
        if wanted.column in ("topic", "brokerName", "tags"):
            if wanted.sign not in ("=", "in") or not all(type(value) is str for value in values):
                return False
            if wanted.column == "tags":
                return may_filter_tags and self._take_tags(values)
            known = self._names.get(wanted.column)
            self._names[wanted.column] = frozenset(values) if known is None else known & frozenset(values)
            return True
        if wanted.column in ("keys", "msgId"):
            self._take_indexed(wanted)
            return False
        if wanted.column == "storeTimestamp":
            self._take_time(wanted)
            return False
        span = {"queueId": self._queue_ids, "queueOffset": self._offsets}.get(wanted.column)
        if span is None or len(values) > _OFFSETS_MAX or not all(type(value) is int for value in values):
            return False
        span.take(wanted.sign, values)
        return True

    def _take_tags(self, values: tuple[Any, ...]) -> bool:
        if not all(_is_plain_tag(value) for value in values):
            return False
        self.tags = frozenset(values) if self.tags is None else self.tags & frozenset(values)
        return True

    def _take_indexed(self, wanted: Comparison) -> None:
        values = wanted.values
        # A row may have several keys, with blanks between them; the index has an entry for each.
        plain = all(type(value) is str and value.split() == [value] for value in values)
        if wanted.sign in ("=", "in") and plain and len(values) <= _KEYS_MAX and wanted.column not in self.indexed:
            self.indexed[wanted.column] = frozenset(values)

    def _take_time(self, wanted: Comparison) -> None:
        try:
            millis = [epoch_micros(value) // 1000 for value in wanted.values]
        except (AttributeError, TypeError, OverflowError):
            return
        if wanted.sign in (">", ">=", "=", "in"):
            self._millis.low = max(self._millis.low, min(millis, default=_HIGH))
        if wanted.sign in ("<", "<=", "=", "in"):
            self._millis.high = min(self._millis.high, max(millis, default=_LOW) + 1)

    @property
    def times(self) -> tuple[int | None, int | None]:
        """Milliseconds: rows stored before the first, or at or after the second, are not wanted."""
        span = self._millis
        return (None if span.low == _LOW else max(0, span.low), None if span.high == _HIGH else max(0, span.high))

    def is_wanted(self, queue: MessageQueue) -> bool:
        """True if this queue may hold wanted rows."""
        names = {"topic": queue.topic, "brokerName": queue.broker_name}
        return all(names[column] in values for column, values in self._names.items()) and (
            queue.queue_id in self._queue_ids and self.tags != frozenset()
        )

    def ranges(
        self,
        whole: QueueRange,
        starts: Mapping[MessageQueue, int],
        ends: Offsets,
        found: Mapping[MessageQueue, set[int]] | None = None,
    ) -> list[QueueRange]:
        """The parts of a range to be read. `starts`, `ends`: the offsets of the times; `found`: those of an index."""
        queue = whole.queue
        low = max(whole.start, self._offsets.low, starts.get(queue, 0))
        high = min(whole.end, self._offsets.high, ends.get(queue, whole.end))
        only = self._offsets.only
        if found is not None:
            here = frozenset(found.get(queue, ()))
            only = here if only is None else only & here
        if only is None:
            return [QueueRange(queue, low, high)] if low < high else []
        return [QueueRange(queue, first, last + 1) for first, last in _runs(only, low, high)]


def _is_plain_tag(tag: Any) -> bool:
    """True if the tag stands for itself in a tag expression."""
    return type(tag) is str and bool(tag) and tag == tag.strip() and "|" not in tag and tag != "*"


def _runs(numbers: frozenset[int], low: int, high: int) -> list[tuple[int, int]]:
    """Numbers of [low, high) as first and last of each run of neighbours."""
    runs: list[tuple[int, int]] = []
    for number in sorted(number for number in numbers if low <= number < high):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
