"""The offsets that a set of rows covers, by queue.

Owns        the nested form topic -> broker -> queue -> [first, next), taking it from Arrow batches, comparing two.
Must not know   tables, Spark.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

__all__ = ["QUEUE_COLUMNS", "OffsetRanges", "add_batch", "beyond", "merge"]

OffsetRanges = dict[str, dict[str, dict[str, tuple[int, int]]]]
"""topic -> broker -> queue id -> (first offset, offset after the last)"""

QUEUE_COLUMNS = ("topic", "brokerName", "queueId", "queueOffset")


def add_batch(ranges: OffsetRanges, batch: pa.RecordBatch) -> None:
    """Widen the ranges by the rows of a batch; rows without a place in a queue do not count."""
    places = pa.table({name: batch.column(name) for name in QUEUE_COLUMNS})
    bounds = places.group_by(list(QUEUE_COLUMNS[:3]), use_threads=False).aggregate(
        [("queueOffset", "min"), ("queueOffset", "max")]
    )
    for row in bounds.to_pylist():
        topic, broker, queue, first, last = (
            row[name] for name in (*QUEUE_COLUMNS[:3], "queueOffset_min", "queueOffset_max")
        )
        if None not in (topic, broker, queue, first):
            _widen(ranges, topic, broker, str(queue), (first, last + 1))


def merge(ranges: OffsetRanges, more: OffsetRanges) -> None:
    """Widen the ranges by others."""
    for topic, broker, queue, bounds in _flat(more):
        _widen(ranges, topic, broker, queue, bounds)


def beyond(ranges: OffsetRanges, known: OffsetRanges) -> str:
    """The first queue whose range is not inside the known one, as a text for people; empty if there is none."""
    for topic, broker, queue, (first, end) in _flat(ranges):
        bounds = known.get(topic, {}).get(broker, {}).get(queue)
        if bounds is None or first < bounds[0] or end > bounds[1]:
            had = "none" if bounds is None else f"{bounds[0]} to {bounds[1] - 1}"
            return f"topic {topic}, broker {broker}, queue {queue}: offsets {first} to {end - 1}, committed were {had}"
    return ""


def _flat(ranges: OffsetRanges) -> Iterator[tuple[str, str, str, tuple[int, int]]]:
    for topic, brokers in ranges.items():
        for broker, queues in brokers.items():
            for queue, bounds in queues.items():
                yield topic, broker, queue, bounds


def _widen(ranges: OffsetRanges, topic: str, broker: str, queue: str, bounds: tuple[int, int]) -> None:
    queues = ranges.setdefault(topic, {}).setdefault(broker, {})
    known = queues.get(queue, bounds)
    queues[queue] = (min(known[0], bounds[0]), max(known[1], bounds[1]))
