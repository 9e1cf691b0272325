"""How many popped messages are in flight: handed out, and neither acknowledged nor brought back.

Owns        these counts by group, topic and queue, which of them are overdue.
Must not know   what counts them up and down, requests.

Counts are kept by the second in which the time of the messages is over. So an acknowledgement finds those that it
belongs to, one of a message from before the start finds nothing, and what waits to be brought back is known as well.
They begin anew with each start and each change of the master, as those of RocketMQ's broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rocketlake.base.clock import Clock

__all__ = ["InFlight", "InFlightCount"]

_SECOND_MS = 1000

_Key = tuple[str, str, int]
"""Group, topic, queue id."""


class InFlightCount(NamedTuple):
    """Messages of one queue."""

    in_time: int = 0
    """Those whose time is not over."""
    overdue: int = 0
    """Those that come again in a moment."""


_NONE = InFlightCount()


class InFlight:
    """The counts of one broker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[_Key, dict[int, int]] = {}
        """By the second in which their time is over."""

    def add(self, key: _Key, due_ms: int, count: int) -> None:
        """So many were handed out."""
        seconds = self._counts.setdefault(key, {})
        second = due_ms // _SECOND_MS
        seconds[second] = seconds.get(second, 0) + count

    def take(self, key: _Key, due_ms: int, count: int = 1) -> None:
        """So many are acknowledged, or brought back. Nothing happens to those that are not known."""
        seconds = self._counts.get(key)
        second = due_ms // _SECOND_MS
        if seconds is None or second not in seconds:
            return
        seconds[second] -= count
        if seconds[second] <= 0:
            del seconds[second]
            if not seconds:
                del self._counts[key]

    def __iter__(self) -> Iterator[_Key]:
        """Groups and queues with messages in flight."""
        return iter(self._counts)

    def of(self, key: _Key) -> InFlightCount:
        """The messages of this queue."""
        seconds = self._counts.get(key)
        if not seconds:
            return _NONE
        now = self._clock.now_ms() // _SECOND_MS
        overdue = sum([count for second, count in seconds.items() if second < now])
        return InFlightCount(sum(seconds.values()) - overdue, overdue)

    def forget_topic(self, topic: str) -> None:
        """The topic is gone."""
        for key in [key for key in self._counts if key[1] == topic]:
            del self._counts[key]

    def clear(self) -> None:
        """Another broker hands out now, or the log was cut."""
        self._counts.clear()
