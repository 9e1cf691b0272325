"""Two sets of offsets become Spark's partitions.

Owns        ranges [start, end) per queue, splitting ranges into tasks.
Must not know   Spark's reader classes, the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from rocketlake.model.message_queue import MessageQueue

if TYPE_CHECKING:
    from rocketlake.spark.source.options import SourceOptions
    from rocketlake.spark.source.record_size import RecordSizes

__all__ = ["QueueRange", "RangesPartition", "put_together", "ranges_between", "split", "split_to_tasks"]

_TOGETHER_MAX = 1000
"""At most so many messages of several queues go into one task: a task costs Spark more than their read."""


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Messages of one queue from offset `start` up to, not including, `end`."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of messages in the range; queue offsets are dense."""
        return self.end - self.start


class RangesPartition(InputPartition):
    """One Spark task: exact ranges. Reading them again gives the same rows."""

    def __init__(self, ranges: Sequence[QueueRange]) -> None:
        super().__init__(
            tuple(
                (each.queue.topic, each.queue.broker_name, each.queue.queue_id, each.start, each.end) for each in ranges
            )
        )

    @property
    def ranges(self) -> list[QueueRange]:
        """The ranges, as planned on the driver."""
        return [
            QueueRange(MessageQueue(topic, broker, queue_id), start, end)
            for topic, broker, queue_id, start, end in self.value
        ]


def ranges_between(start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]) -> list[QueueRange]:
    """The ranges of one micro-batch that hold messages, in queue order.

    A queue that is in `end` only was found just now, and `end` holds its first offset (progress.py): from the next
    batch on its start stands in the checkpoint like any other. An end before the start is a queue that begins anew
    there: it is read from the next batch on.
    """
    ranges = [QueueRange(queue, start.get(queue, end[queue]), end[queue]) for queue in sorted(end)]
    return [each for each in ranges if each.size > 0]


def split_to_tasks(ranges: Sequence[QueueRange], options: SourceOptions, sizes: RecordSizes) -> list[RangesPartition]:
    """Spark's tasks: ranges cut by minPartitions, maxRecordsPerPartition, maxBytesPerPartition; small ones together.

    With minPartitions (above 1) or maxBytesPerPartition no ranges are put together.
    """
    longest = {each.queue: options.max_records_per_partition or each.size for each in ranges}
    if options.max_bytes_per_partition is not None:
        means = sizes.measure({each.queue: (each.start, each.end) for each in ranges})
        for queue, mean in means.items():
            longest[queue] = min(longest[queue], max(1, int(options.max_bytes_per_partition / mean)))
    parts = split(ranges, min_partitions=options.min_partitions, longest=longest)
    most = 0
    if options.min_partitions == 1 and options.max_bytes_per_partition is None:
        most = min(_TOGETHER_MAX, options.max_records_per_partition or _TOGETHER_MAX)
    return [RangesPartition(together) for together in put_together(parts, most)]


def put_together(parts: Sequence[QueueRange], most: int) -> list[list[QueueRange]]:
    """Neighbours as one while they hold no more than `most` messages in all."""
    tasks: list[list[QueueRange]] = []
    size = 0
    for part in parts:
        size += part.size
        if tasks and size <= most:
            tasks[-1].append(part)
        else:
            tasks.append([part])
            size = part.size
    return tasks


def split(
    ranges: Sequence[QueueRange], *, min_partitions: int, longest: Mapping[MessageQueue, int]
) -> list[QueueRange]:
    """Cut ranges so that there are at least `min_partitions` and none is longer than its queue's `longest`."""
    total = sum(each.size for each in ranges)
    if len(ranges) < min_partitions:
        most = max(1, total // min_partitions)
        longest = {queue: min(most, size) for queue, size in longest.items()}
    return [part for each in ranges for part in _cut(each, max(1, longest[each.queue]))]


def _cut(whole: QueueRange, longest: int) -> list[QueueRange]:
    pieces = max(1, -(-whole.size // longest))
    # Equal pieces, not "full ones and a rest": tasks of one stage should end together.
    edges = [whole.start + whole.size * index // pieces for index in range(pieces + 1)]
    return [QueueRange(whole.queue, low, high) for low, high in pairwise(edges)]
