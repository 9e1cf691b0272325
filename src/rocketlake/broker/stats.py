"""Rates of what a broker counts, as RocketMQ's administrators see them.

Owns        the samples of the counters, rates of the last minute, hour and day.
Must not know   what is counted (counters.py), requests, administrators.

Sampling is RocketMQ's (BrokerStatsManager): a sample every 10 s (7 kept), 10 min (7) and hour (25); a rate is taken
between the first and the last sample kept. Figures for Prometheus (metrics/) need no samples.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.broker.counters import BROKER_GET_NUMS, BROKER_PUT_NUMS, Counter, Counters

__all__ = ["BrokerStats", "Rate", "RatedCounter"]

SAMPLE_SECONDS = 10
_SAMPLES_PER_MINUTE = 6
_SAMPLES_PER_TEN_MINUTES = 60
_SAMPLES_PER_HOUR = 360


@dataclass(frozen=True, slots=True)
class Rate:
    """The growth of a counter in a span of time: the sum, per second, per call."""

    total: int = 0
    per_second: float = 0.0
    per_call: float = 0.0


class RatedCounter(Counter):
    """A counter, and its value at some earlier times: (ms, sum, calls)."""

    __slots__ = ("day", "hour", "minute")

    def __init__(self) -> None:
        super().__init__()
        self.minute: deque[tuple[int, int, int]] = deque(maxlen=7)
        self.hour: deque[tuple[int, int, int]] = deque(maxlen=7)
        self.day: deque[tuple[int, int, int]] = deque(maxlen=25)

    def sample(self, samples: deque[tuple[int, int, int]], now_ms: int, seconds: int) -> None:
        """Note the present sum. A zero stands before the first sample, so that the first counts are in the rate."""
        if not samples:
            samples.append((now_ms - seconds * 1000, 0, 0))
        samples.append((now_ms, self.total, self.calls))

    @staticmethod
    def rate(samples: deque[tuple[int, int, int]]) -> Rate:
        """The growth between the first and the last sample."""
        if len(samples) < 2:
            return Rate()
        (first_ms, first_total, first_calls), (last_ms, last_total, last_calls) = samples[0], samples[-1]
        total, calls = last_total - first_total, last_calls - first_calls
        span_ms = last_ms - first_ms
        return Rate(total, total * 1000 / span_ms if span_ms > 0 else 0.0, total / calls if calls else 0.0)


class BrokerStats(Counters[RatedCounter], Service):
    """The counters of a broker, and their rates."""

    def __init__(self, cluster: str, clock: Clock) -> None:
        Service.__init__(self, "broker-stats", clock)
        Counters.__init__(self, cluster, RatedCounter)
        self.started_ms = clock.now_ms()
        self.seconds = clock.monotonic
        self.put_mornings = (0, 0)
        """Messages put up to the start of yesterday and of today, since the start of the broker."""
        self.got_mornings = (0, 0)
        """The same of messages that consumers got."""
        self._rounds = 0
        self._today = time.localtime(self.started_ms / 1000)[:3]

    async def start(self) -> None:
        """Start to take samples."""
        await super().start()
        self.every("samples", SAMPLE_SECONDS, self.take_samples)

    def per_second(self, item: str, key: str) -> float:
        """The rate of the last minute."""
        counter = self.find(item, key)
        return 0.0 if counter is None else counter.rate(counter.minute).per_second

    @property
    def put_per_second(self) -> float:
        """Messages stored per second in the last minute."""
        return self.per_second(BROKER_PUT_NUMS, self._cluster)

    @property
    def get_per_second(self) -> float:
        """Messages handed out per second in the last minute."""
        return self.per_second(BROKER_GET_NUMS, self._cluster)

    def take_samples(self) -> None:
        """One round of samples; called every 10 s."""
        now = self._clock.now_ms()
        self._look_at_date(now)
        for counters in self._items.values():
            for counter in counters.values():
                counter.sample(counter.minute, now, SAMPLE_SECONDS)
                if self._rounds % _SAMPLES_PER_TEN_MINUTES == 0:
                    counter.sample(counter.hour, now, 600)
                if self._rounds % _SAMPLES_PER_HOUR == 0:
                    counter.sample(counter.day, now, 3600)
        self._rounds += 1
        if self._rounds % _SAMPLES_PER_MINUTE == 0:
            self.put_latency.roll()

    def _look_at_date(self, now_ms: int) -> None:
        today = time.localtime(now_ms / 1000)[:3]
        if today != self._today:
            self._today = today
            self.put_mornings = (self.put_mornings[1], self.put_times)
            self.got_mornings = (self.got_mornings[1], self.got_messages)
