"""What comes in, what goes out, what is refused.

Owns        the families of messages, bytes, dead letters and refusals.
Must not know   how they are counted (counters.py, net/dispatcher.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rocketlake.base.figures.histogram import Histogram
from rocketlake.broker.counters import (
    DEAD_LETTER_TIMES,
    GROUP_GET_NUMS,
    GROUP_GET_SIZE,
    SEND_BACK_NUMS,
    TOPIC_PUT_NUMS,
    TOPIC_PUT_SIZE,
    Counters,
)
from rocketlake.broker.metrics.labels import group_labels, message_type, topic_labels
from rocketlake.broker.topics.table import TopicTable
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.http.exposition import Family, Sample, labels_text
from rocketlake.protocol.request_code import request_name

__all__ = ["traffic_families"]

_CAUSES = {
    ("send", "TIMEOUT_CLEAN_QUEUE"): "send_timeout",
    ("pull", "TIMEOUT_CLEAN_QUEUE"): "pull_timeout",
    ("send", "PCBUSY_CLEAN_QUEUE"): "page_cache",
    ("send", "OVERLOAD"): "overload",
    ("send", "POOL_BUSY"): "pool_exhausted",
    ("send", "DISK_FULL"): "disk_full",
    ("send", "SERVICE_NOT_AVAILABLE"): "not_writable",
    ("send", "REJECTREQUEST"): "not_master",
}
"""Refusals by lane and reason, as users look for them. The first five are those that Apache calls busy."""


def traffic_families(stats: Counters[Any], topics: TopicTable, dispatcher: Dispatcher) -> Iterator[Family]:
    """`dispatcher`: of the broker's requests."""
    yield Family("rocketmq_messages_in_total", "counter", "Messages stored", _in(stats, topics, TOPIC_PUT_NUMS))
    yield Family("rocketmq_throughput_in_total", "counter", "Bytes stored", _in(stats, topics, TOPIC_PUT_SIZE))
    yield Family("rocketmq_messages_out_total", "counter", "Messages handed out", _out(stats, GROUP_GET_NUMS))
    yield Family("rocketmq_throughput_out_total", "counter", "Bytes handed out", _out(stats, GROUP_GET_SIZE))
    dead = _by_group(stats, DEAD_LETTER_TIMES, group_labels)
    yield Family("rocketmq_send_to_dlq_messages_total", "counter", "Messages that became dead letters", dead)
    back = _by_group(stats, SEND_BACK_NUMS, group_labels)
    yield Family("rocketlake_retry_messages_total", "counter", "Messages that consumers sent back", back)
    refused: dict[str, int] = dict.fromkeys(_CAUSES.values(), 0)
    for key, count in dispatcher.refusals.items():
        cause = _CAUSES.get(key) or f"{key[0]}_{key[1]}".lower()
        refused[cause] = refused.get(cause, 0) + count
    busy = [(labels_text({"cause": cause}), count) for cause, count in refused.items()]
    yield Family("rocketlake_busy_total", "counter", "Requests answered busy or not now, by cause", busy)
    slow = [
        (labels_text({"request_code": request_name(code).lower() if code >= 0 else "other"}), count)
        for code, count in dispatcher.slow.items()
    ]
    text = "Requests answered more than half a second after they came, though they did not wait"
    yield Family("rocketlake_slow_requests_total", "counter", text, slow)
    latency: Histogram = stats.put_latency.histogram()
    text = "Time until a message may be acknowledged; the sum is taken from the classes"
    yield Family("rocketlake_put", "histogram", text, [("", latency)], "seconds")


def _in(stats: Counters[Any], topics: TopicTable, item: str) -> Iterator[Sample]:
    for topic, counter in stats.counters(item):
        yield topic_labels(topic, message_type(topic, topics.get(topic))), counter.total


def _out(stats: Counters[Any], item: str) -> Iterator[Sample]:
    return _by_group(stats, item, group_labels)


def _by_group(stats: Counters[Any], item: str, labels: Callable[[str, str], str]) -> Iterator[Sample]:
    for key, counter in stats.counters(item):
        topic, _, group = key.partition("@")
        yield labels(group, topic), counter.total
