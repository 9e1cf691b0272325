"""Counts of messages, bytes and calls by topic and group since the start of a broker.

Owns        the counters, which of them a put or a get adds to, their keys.
Must not know   requests, rates and their samples (stats.py), who reads the counts.

Item names and keys are RocketMQ's (BrokerStatsManager). Its per-queue detail items are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from rocketlake.broker.put_latency import PutLatency
from rocketlake.model.names import is_system_topic

__all__ = ["Counter", "Counters"]

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


class Counter:
    """A sum that grows."""

    __slots__ = ("calls", "total")

    def __init__(self) -> None:
        self.total = 0
        self.calls = 0

    def add(self, value: int, calls: int = 1) -> None:
        """Count."""
        self.total += value
        self.calls += calls


C = TypeVar("C", bound=Counter)


class Counters(Generic[C]):
    """All counters of a broker, by item name and key."""

    def __init__(self, cluster: str, make: Callable[[], C]) -> None:
        """`make`: a counter that counts from 0 on."""
        self.put_times = 0
        self.put_failures = 0
        self.put_bytes = 0
        self.got_messages = 0
        self.put_latency = PutLatency()
        self._cluster = cluster
        self._make = make
        self._items: dict[str, dict[str, C]] = {}
        self._put_counters: dict[str, tuple[C, tuple[C, ...]]] = {}
        self._get_counters: dict[tuple[str, str], tuple[C, tuple[C, ...]]] = {}

    def count_put(self, topic: str, count: int, size: int, calls: int = 1) -> None:
        """`count` messages of `size` bytes in all were stored, for `calls` requests."""
        self.put_times += count
        self.put_bytes += size
        of_size, of_count = self._put_counters.get(topic) or self._find_put_counters(topic)
        of_size.add(size, calls)
        for counter in of_count:
            counter.add(count, calls)

    def _find_put_counters(self, topic: str) -> tuple[C, tuple[C, ...]]:
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

    def _find_get_counters(self, group: str, topic: str) -> tuple[C, tuple[C, ...]]:
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

    def find(self, item: str, key: str) -> C | None:
        """The counter; None if it never counted."""
        return self._items.get(item, {}).get(key)

    def counters(self, item: str) -> list[tuple[str, C]]:
        """All counters of an item, each with its key."""
        return list(self._items.get(item, {}).items())

    def forget_topic(self, topic: str) -> Iterator[None]:
        """The topic was deleted; in steps: there may be a counter for each topic and group."""
        return self._forget(lambda key: key == topic or key.startswith(f"{topic}@"))

    def forget_group(self, group: str) -> Iterator[None]:
        """The group was deleted; in steps, too."""
        return self._forget(lambda key: key.endswith(f"@{group}"))

    def _counter(self, item: str, key: str) -> C:
        counters = self._items.get(item)
        if counters is None:
            counters = self._items[item] = {}
        counter = counters.get(key)
        if counter is None:
            counter = counters[key] = self._make()
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
