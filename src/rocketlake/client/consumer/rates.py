"""How fast a consumer pulls and consumes, by topic, as administrators see it.

Owns        the counts of pulls and of listener calls, their growth in the last minute and hour.
Must not know   listeners, the network, clocks (times come in as monotonic seconds).

Apache's client keeps the same figures (ConsumerStatsManager): a sample every 10 s. Here a rate runs from the oldest
sample of the last minute up to now, so a consumer that has just started has rates, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from rocketlake.protocol.bodies.client import ConsumeStatus

__all__ = ["SAMPLE_SECONDS", "Rates"]

SAMPLE_SECONDS: Final = 10
_SAMPLES_OF_MINUTE: Final = 6
_SAMPLES_OF_HOUR: Final = 360
_SAMPLES_BETWEEN: Final = 60
"""Of the hour only each sixtieth is kept."""


class _Counts:
    """Of one topic, since it was first seen."""

    __slots__ = ("calls", "calls_seconds", "done", "failed", "hour", "minute", "pulled", "pulls", "pulls_seconds")

    def __init__(self, now: float) -> None:
        self.pulls = self.pulled = self.calls = self.done = self.failed = 0
        self.pulls_seconds = self.calls_seconds = 0.0
        self.minute = deque([self._sums(now)], maxlen=_SAMPLES_OF_MINUTE)
        self.hour = deque([0], maxlen=_SAMPLES_OF_HOUR // _SAMPLES_BETWEEN)
        """Failed messages at earlier times."""

    def sample(self, now: float, *, is_of_hour: bool) -> None:
        self.minute.append(self._sums(now))
        if is_of_hour:
            self.hour.append(self.failed)

    def status(self, now: float) -> ConsumeStatus:
        before, sums = self.minute[0], self._sums(now)
        seconds, pulls, pulls_seconds, pulled, calls, calls_seconds, done, failed = (
            later - earlier for earlier, later in zip(before, sums, strict=True)
        )
        return ConsumeStatus(
            pull_rt=_ratio(pulls_seconds * 1000, pulls),
            pull_tps=_ratio(pulled, seconds),
            consume_rt=_ratio(calls_seconds * 1000, calls),
            consume_ok_tps=_ratio(done, seconds),
            consume_failed_tps=_ratio(failed, seconds),
            consume_failed_msgs=self.failed - self.hour[0],
        )

    def _sums(self, now: float) -> tuple[float, ...]:
        return (
            now, self.pulls, self.pulls_seconds, self.pulled, self.calls, self.calls_seconds, self.done, self.failed,
        )  # fmt: skip


class Rates:
    """Of one consumer."""

    def __init__(self) -> None:
        self._topics: dict[str, _Counts] = {}
        self._sampled = 0.0
        self._rounds = 0

    def begin(self, now: float) -> None:
        """The consumer starts."""
        self._sampled = now

    def pulled(self, topic: str, seconds: float, messages: int) -> None:
        """A pull or a pop took so long and brought messages. One that brought none only waited: it is not counted."""
        if messages:
            counts = self._topics.get(topic) or self._new(topic)
            counts.pulls += 1
            counts.pulls_seconds += seconds
            counts.pulled += messages

    def consumed(self, topic: str, seconds: float, messages: int, done: int) -> None:
        """The listener had so many messages for so long; `done` of them went well."""
        counts = self._topics.get(topic) or self._new(topic)
        counts.calls += 1
        counts.calls_seconds += seconds
        counts.done += done
        if done != messages:
            counts.failed += messages - done

    def sample(self, now: float) -> None:
        """Called every SAMPLE_SECONDS."""
        self._sampled = now
        self._rounds += 1
        for counts in self._topics.values():
            counts.sample(now, is_of_hour=self._rounds % _SAMPLES_BETWEEN == 0)

    def status(self, topics: Iterable[str], now: float) -> dict[str, ConsumeStatus]:
        """By topic; of one that had no message yet all is 0."""
        return {
            topic: counts.status(now) if (counts := self._topics.get(topic)) else ConsumeStatus() for topic in topics
        }

    def _new(self, topic: str) -> _Counts:
        counts = self._topics[topic] = _Counts(self._sampled)
        return counts


def _ratio(sum_: float, count: float) -> float:
    return sum_ / count if count > 0 else 0.0
