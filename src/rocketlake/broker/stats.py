"""Counts of messages, bytes and calls by topic and group, for administrators.

Owns        the counters, their samples, rates of the last minute, hour and day.
Must not know   requests, administrators.

Names, keys and sampling are RocketMQ's (BrokerStatsManager): a sample every 10 s (7 kept), 10 min (7) and hour (25); a
rate is taken between the first and the last sample kept. Its per-queue detail items are left out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.broker.put_latency import PutLatency
from rocketlake.model.names import is_system_topic

__all__ = ["BrokerStats", "Counter", "Rate"]

SAMPLE_SECONDS = 10
_SAMPLES_PER_MINUTE = 6
_SAMPLES_PER_TEN_MINUTES = 60
_SAMPLES_PER_HOUR = 360
_KEYS_AT_ONCE = 100
"""Keys compared in one step while a topic or group is forgotten."""

BROKER_PUT_NUMS = "BROKER_PUT_NUMS"
BROKER_GET_NUMS = "BROKER_GET_NUMS"
BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"
TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS = "GROUP_GET_NUMS"
GROUP_GET_SIZE = "GROUP_GET_SIZE"
SEND_BACK_NUMS = "SNDBCK_PUT_NUMS"
DEAD_LETTER_TIMES = "SNDBCK2DLQ_TIMES"


@dataclass(frozen=True, slots=True)
class Rate:
    """The growth of a counter in a span of time: the sum, per second, per call."""

    total: int = 0
    per_second: float = 0.0
    per_call: float = 0.0


class Counter:
    """A sum that grows, and its value at some earlier times: (ms, sum, calls)."""

    __slots__ = ("calls", "day", "hour", "minute", "total")

    def __init__(self) -> None:
        self.total = 0
        self.calls = 0
        self.minute: deque[tuple[int, int, int]] = deque(maxlen=7)
        self.hour: deque[tuple[int, int, int]] = deque(maxlen=7)
        self.day: deque[tuple[int, int, int]] = deque(maxlen=25)

    def add(self, value: int, calls: int = 1) -> None:
        """Count."""
        self.total += value
        self.calls += calls

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


class BrokerStats(Service):
    """All counters of a broker, by item name and key."""

    def __init__(self, cluster: str, clock: Clock) -> None:
        super().__init__("broker-stats", clock)
        self.started_ms = clock.now_ms()
        self.seconds = clock.monotonic
        self.put_times = 0
        self.put_failures = 0
        self.put_bytes = 0
        self.got_messages = 0
        self.put_latency = PutLatency()
        self.put_mornings = (0, 0)
        """Messages put up to the start of yesterday and of today, since the start of the broker."""
        self.got_mornings = (0, 0)
        """The same of messages that consumers got."""
        self._cluster = cluster
        self._rounds = 0
        self._today = time.localtime(self.started_ms / 1000)[:3]
        self._items: dict[str, dict[str, Counter]] = {}
        self._put_counters: dict[str, tuple[Counter, tuple[Counter, ...]]] = {}
        self._get_counters: dict[tuple[str, str], tuple[Counter, tuple[Counter, ...]]] = {}

    async def start(self) -> None:
        """Start to take samples."""
        await super().start()
        self.every("samples", SAMPLE_SECONDS, self.take_samples)

    def count_put(self, topic: str, count: int, size: int, calls: int = 1) -> None:
        """`count` messages of `size` bytes in all were stored, for `calls` requests."""
        self.put_times += count
        self.put_bytes += size
        of_size, of_count = self._put_counters.get(topic) or self._find_put_counters(topic)
        of_size.add(size, calls)
        for counter in of_count:
            counter.add(count, calls)

    def _find_put_counters(self, topic: str) -> tuple[Counter, tuple[Counter, ...]]:
        """The counters of the bytes, and those of the messages, that are put into a topic; looked up once."""
        of_count = [self._counter(TOPIC_PUT_NUMS, topic), self._counter(BROKER_PUT_NUMS, self._cluster)]
        if not is_system_topic(topic):
            of_count.append(self._counter(BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC, self._cluster))
        found = self._put_counters[topic] = self._counter(TOPIC_PUT_SIZE, topic), tuple(of_count)
        return found

    def count_put_failure(self) -> None:
        """The store refused a message."""
        self.put_failures += 1

    def count_get(self, group: str, topic: str, count: int, size: int) -> None:
        """A pull of the group got `count` messages of `size` bytes in all."""
        self.got_messages += count
        of_size, of_count = self._get_counters.get((group, topic)) or self._find_get_counters(group, topic)
        of_size.total += size
        of_size.calls += 1
        for counter in of_count:  # once for each pull: without calls of `add`
            counter.total += count
            counter.calls += 1

    def _find_get_counters(self, group: str, topic: str) -> tuple[Counter, tuple[Counter, ...]]:
        """The counters of the bytes, and those of the messages, that a group gets of a topic; looked up once."""
        key = f"{topic}@{group}"
        of_count = [self._counter(GROUP_GET_NUMS, key), self._counter(BROKER_GET_NUMS, self._cluster)]
        if not is_system_topic(topic):
            of_count.append(self._counter(BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC, self._cluster))
        found = self._get_counters[group, topic] = self._counter(GROUP_GET_SIZE, key), tuple(of_count)
        return found

    def count_send_back(self, group: str, topic: str, *, is_dead: bool) -> None:
        """A consumer sent a message of `topic` back, for another try or to the dead letters."""
        self._counter(SEND_BACK_NUMS, f"{topic}@{group}").add(1)
        if is_dead:
            self._counter(DEAD_LETTER_TIMES, f"{topic}@{group}").add(1)

    def find(self, item: str, key: str) -> Counter | None:
        """The counter; None if it never counted."""
        return self._items.get(item, {}).get(key)

    def counters(self, item: str) -> list[tuple[str, Counter]]:
        """All counters of an item, each with its key."""
        return list(self._items.get(item, {}).items())

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

    def forget_topic(self, topic: str) -> Iterator[None]:
        """The topic was deleted; in steps: there may be a counter for each topic and group."""
        return self._forget(lambda key: key == topic or key.startswith(f"{topic}@"))

    def forget_group(self, group: str) -> Iterator[None]:
        """The group was deleted; in steps, too."""
        return self._forget(lambda key: key.endswith(f"@{group}"))

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

    def _counter(self, item: str, key: str) -> Counter:
        counters = self._items.get(item)
        if counters is None:
            counters = self._items[item] = {}
        counter = counters.get(key)
        if counter is None:
            counter = counters[key] = Counter()
        return counter

    def _forget(self, is_gone: Callable[[str], bool]) -> Iterator[None]:
        for counters in self._items.values():
            for number, key in enumerate(list(counters)):
                if is_gone(key):
                    counters.pop(key, None)
                    self._put_counters.clear()
                    self._get_counters.clear()
                if number % _KEYS_AT_ONCE == 0:
                    yield
