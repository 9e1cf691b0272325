"""spark.read.format("rocketmq"): a bounded read, planned once.

Owns        resolving startingOffsets and endingOffsets, the tasks of a batch read.
Must not know   how offsets are asked for (brokers.py), how rows are made (range_read.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.schema import arrow_schema
from rocketlake.spark.source.brokers import Bounds, Brokers, bounds_of, with_retries
from rocketlake.spark.source.cluster_brokers import connect
from rocketlake.spark.source.offsets import describe
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.plan import QueueRange, RangePartition, split
from rocketlake.spark.source.range_read import read_range

__all__ = ["RocketMQBatchReader"]


class RocketMQBatchReader(DataSourceReader):
    """One batch read; `read` runs in workers, from the pickled copy."""

    def __init__(
        self, options: SourceOptions, schema: StructType, connect: Callable[[SourceOptions], Brokers] = connect
    ) -> None:
        self._options = options
        self._schema = schema
        self._connect = connect

    def partitions(self) -> Sequence[InputPartition]:
        """Tasks of the whole read; UsageError when the offsets asked for do not fit."""
        brokers, options = self._connect(self._options), self._options
        bounds = brokers.run(_all_bounds(brokers, options))
        low = {queue: each.low for queue, each in bounds.items()}
        high = {queue: each.high for queue, each in bounds.items()}
        start, end = options.starting.resolve(low, high), options.ending.resolve(low, high)
        ranges = [QueueRange(queue, start[queue], end[queue]) for queue in sorted(start)]
        for each in ranges:
            if each.size < 0:
                raise UsageError(
                    f"the read of {describe(each.queue)} would start at {each.start} and end before {each.end}",
                    hint="'startingOffsets' must not lie behind 'endingOffsets'",
                )
        parts = split(
            [each for each in ranges if each.size],
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
        )
        # Spark turns "no partition" into one partition of None; an empty range of our own is read as nothing.
        return [RangePartition(part) for part in parts or ranges[:1]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of one range."""
        assert isinstance(partition, RangePartition)
        return read_range(self._connect(self._options), partition.range, self._options, arrow_schema(self._schema))


async def _all_bounds(brokers: Brokers, options: SourceOptions) -> dict[MessageQueue, Bounds]:
    found: dict[MessageQueue, Bounds] = {}
    for topic in options.topics:
        queues = await with_retries(
            brokers,
            options,
            f"asking the route of {topic}",
            lambda topic=topic: brokers.queues(topic),  # type: ignore[misc]
        )
        found |= await bounds_of(brokers, options, queues)
    return found
