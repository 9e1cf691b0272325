"""spark.read.format("rocketmq"): a bounded read, planned once.

Owns        resolving the start and the end of each queue, using filters that Spark pushes, the tasks of a batch read.
Must not know   how offsets are asked for (brokers.py), how rows are made (range_read.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.pushdown import comparison_of
from rocketlake.spark.schema import arrow_schema
from rocketlake.spark.source.brokers import Bounds, Brokers, bounds_of
from rocketlake.spark.source.cluster_brokers import connect
from rocketlake.spark.source.key_lookup import look_up
from rocketlake.spark.source.narrowing import Narrowing
from rocketlake.spark.source.offsets import Offsets, describe
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.plan import QueueRange, RangesPartition, split_to_tasks
from rocketlake.spark.source.queue_finder import QueueFinder
from rocketlake.spark.source.range_read import read_ranges
from rocketlake.spark.source.record_size import RecordSizes
from rocketlake.spark.source.seek import offsets_of_times, resolve
from rocketlake.spark.source.worker import freeze_once

__all__ = ["PushingBatchReader", "RocketMQBatchReader"]

_NOTHING = RangesPartition([])


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
        brokers = self._connect(self._options)
        ranges = [each for each in self._ranges(brokers) if each.size]
        # Spark turns "no partition" into one partition of None; an empty range of ours gives no rows.
        return split_to_tasks(ranges, self._options, RecordSizes(brokers, self._options)) or [_NOTHING]

    def _ranges(self, brokers: Brokers) -> list[QueueRange]:
        options = self._options
        queues = QueueFinder(brokers, options).require_all()
        bounds = brokers.run(bounds_of(brokers, options, queues))
        start = brokers.run(resolve(brokers, options, options.starting, bounds))
        end = brokers.run(resolve(brokers, options, options.ending, bounds))
        ranges = [QueueRange(queue, start[queue], end[queue]) for queue in sorted(start)]
        for each in ranges:
            if each.size < 0:
                raise UsageError(
                    f"the read of {describe(each.queue)} would start at {each.start} and end before {each.end}",
                    hint=f"set '{options.starting.option}' before '{options.ending.option}'",
                )
        return self._narrowed(brokers, ranges, bounds)

    def _narrowed(
        self, brokers: Brokers, ranges: list[QueueRange], bounds: Mapping[MessageQueue, Bounds]
    ) -> list[QueueRange]:
        """The ranges that pushed filters leave; here there are no filters."""
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of the ranges of one task."""
        assert isinstance(partition, RangesPartition)
        brokers = self._connect(self._options)
        freeze_once()
        return read_ranges(brokers, partition.ranges, self._options, arrow_schema(self._schema))


class PushingBatchReader(RocketMQBatchReader):
    """A batch read that takes filters. Spark refuses any reader that has `pushFilters` unless they are switched on."""

    def __init__(
        self, options: SourceOptions, schema: StructType, connect: Callable[[SourceOptions], Brokers] = connect
    ) -> None:
        super().__init__(options, schema, connect)
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters; give back those that Spark must still apply."""
        left = [each for each in filters if not self._take(each)]
        if self._narrowing.tags:
            self._options = replace(self._options, tags=" || ".join(sorted(self._narrowing.tags)))
        return left

    def _take(self, filter: Filter) -> bool:
        wanted = comparison_of(filter)
        may_filter_tags = not self._options.is_filtered
        return wanted is not None and self._narrowing.take(wanted, may_filter_tags=may_filter_tags)

    def _narrowed(
        self, brokers: Brokers, ranges: list[QueueRange], bounds: Mapping[MessageQueue, Bounds]
    ) -> list[QueueRange]:
        left = [each for each in ranges if each.size and self._narrowing.is_wanted(each.queue)]
        low, high = (self._offsets_at(brokers, time_ms, left, bounds) for time_ms in self._narrowing.times)
        found = brokers.run(look_up(brokers, self._options, self._narrowing.indexed, [each.queue for each in left]))
        return [part for each in left for part in self._narrowing.ranges(each, low, high, found)]

    def _offsets_at(
        self, brokers: Brokers, time_ms: int | None, ranges: list[QueueRange], bounds: Mapping[MessageQueue, Bounds]
    ) -> Offsets:
        times = {} if time_ms is None else dict.fromkeys((each.queue for each in ranges), time_ms)
        return brokers.run(offsets_of_times(brokers, self._options, times, bounds))
