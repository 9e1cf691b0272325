"""Answers about messages that wait for their time.

Owns        their shape.
Must not know   the wheel.
"""

from __future__ import annotations

from msgspec import field

from rocketlake.protocol.bodies.body import Body, Entry
from rocketlake.protocol.bodies.data_version import DataVersionBody


class WaitingMessage(Entry, kw_only=True):
    """One message. `recall_handle` takes it back; `due` is epoch ms."""

    due: int
    topic: str
    id: str
    keys: str = ""
    tag: str = ""
    body_bytes: int = 0
    recall_handle: str = ""


class WaitingCount(Entry, kw_only=True):
    """How many wait for a topic: due within a minute, an hour, a day, later; the time of the first."""

    minute: int = 0
    hour: int = 0
    day: int = 0
    later: int = 0
    first_due: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.minute + self.hour + self.day + self.later

    def plus(self, other: WaitingCount) -> WaitingCount:
        """Of both."""
        return WaitingCount(
            minute=self.minute + other.minute,
            hour=self.hour + other.hour,
            day=self.day + other.day,
            later=self.later + other.later,
            first_due=min(self.first_due, other.first_due),
        )


class WaitingMessages(Body, kw_only=True):
    """Answer of GET_WAITING_MESSAGES. `tick` 0: there are no more, else ask again from there."""

    messages: list[WaitingMessage] = field(default_factory=list)
    counts: dict[str, WaitingCount] = field(default_factory=dict)
    tick: int = 0
    place: int = -1


class TimerMetric(Entry, kw_only=True):
    """Of one topic."""

    count: int
    time_stamp: int


class TimerMetrics(Body, kw_only=True):
    """Answer of GET_TIMER_METRICS: how many messages wait for each topic."""

    data_version: DataVersionBody
    timing_count: dict[str, TimerMetric] = field(default_factory=dict)
