"""From two sets of offsets to Spark partitions.

Owns        ranges [start, end) per queue, splitting them into tasks, nothing else.
Must not know   Spark's reader classes, the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from rocketlake.model.message_queue import MessageQueue

__all__ = ["QueueRange", "RangePartition", "ranges_between", "split"]


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Messages of one queue from offset `start` up to, not including, `end`."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many messages the range holds; queue offsets are dense."""
        return self.end - self.start


class RangePartition(InputPartition):
    """One Spark task: one exact range. Reading it again gives the same rows."""

    def __init__(self, queue_range: QueueRange) -> None:
        queue = queue_range.queue
        super().__init__((queue.topic, queue.broker_name, queue.queue_id, queue_range.start, queue_range.end))

    @property
    def range(self) -> QueueRange:
        """The range, as planned on the driver."""
        topic, broker, queue_id, start, end = self.value
        return QueueRange(MessageQueue(topic, broker, queue_id), start, end)


def ranges_between(start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]) -> list[QueueRange]:
    """The ranges of one micro-batch, in queue order.

    A queue that is in `end` only was found just now, and `end` holds its first offset (stream_reader.py): from the
    next batch on its start stands in the checkpoint like any other. A range of negative size (the queue is shorter
    than what was read of it) is left in for the caller to judge.
    """
    ranges = [QueueRange(queue, start.get(queue, end[queue]), end[queue]) for queue in sorted(end)]
    return [each for each in ranges if each.size != 0]


def split(ranges: Iterable[QueueRange], *, min_partitions: int, max_records: int | None) -> list[QueueRange]:
    """Cut ranges so that there are at least `min_partitions` and none is longer than `max_records`."""
    wanted = list(ranges)
    total = sum(each.size for each in wanted)
    longest = total if max_records is None else max_records
    if len(wanted) < min_partitions:
        longest = min(longest, max(1, total // min_partitions))
    return [part for each in wanted for part in _cut(each, max(1, longest))]


def _cut(whole: QueueRange, longest: int) -> list[QueueRange]:
    pieces = max(1, -(-whole.size // longest))
    # Equal pieces, not "full ones and a rest": tasks of one stage should end together.
    edges = [whole.start + whole.size * index // pieces for index in range(pieces + 1)]
    return [QueueRange(whole.queue, low, high) for low, high in pairwise(edges)]
