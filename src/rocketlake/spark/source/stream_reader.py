"""spark.readStream.format("rocketmq"): the calls that Spark makes.

Owns        Spark's names of a stream's calls, limits as Spark hands them over, cutting a micro-batch into tasks.
Must not know   what offsets mean (progress.py), how rows are made (range_read.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from rocketlake.spark.schema import arrow_schema
from rocketlake.spark.source.brokers import Brokers
from rocketlake.spark.source.cluster_brokers import connect
from rocketlake.spark.source.incarnations import marks_in, with_marks
from rocketlake.spark.source.offsets import Nested, from_nested, to_nested
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.plan import RangesPartition, split_to_tasks
from rocketlake.spark.source.progress import Limit, Progress
from rocketlake.spark.source.range_read import read_ranges
from rocketlake.spark.source.worker import freeze_once

__all__ = ["RocketMQStreamReader"]


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's view of the stream. Driver calls go to one `Progress`; `read` runs in workers, from the pickled copy."""

    def __init__(
        self, options: SourceOptions, schema: StructType, connect: Callable[[SourceOptions], Brokers] = connect
    ) -> None:
        self._options = options
        self._schema = schema
        self._connect = connect
        self._made: Progress | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The state of the driver stays on the driver: connections cannot be pickled.
        return self.__dict__ | {"_made": None}

    @property
    def _progress(self) -> Progress:
        if self._made is None:
            self._made = Progress(self._options, self._connect(self._options))
        return self._made

    def initialOffset(self) -> Nested:
        """First offsets. Spark asks twice for batch 0, and again after a restart before batch 0 was done."""
        return to_nested(self._progress.first_offsets())

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the limits of the options; Spark takes no more than one, so the others are applied here."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Nested:
        """End of the next micro-batch; equal to `start` when there is nothing new."""
        offsets, marks = from_nested(start), marks_in(start)
        self._progress.incarnations.know(marks)
        end = self._progress.next_end(offsets, self._limit(limit))
        # Spark compares texts: without new messages not even a mark may differ.
        return with_marks(to_nested(end), marks if end == offsets else self._progress.incarnations.marks)

    def _limit(self, limit: ReadLimit) -> Limit:
        if isinstance(limit, ReadAllAvailable):
            # Trigger.Once asks for all messages, whatever the options say.
            return Limit()
        options = self._options
        return Limit(
            options.max_offsets_per_trigger,
            options.max_bytes_per_trigger,
            waits=options.min_offsets_per_trigger is not None,
        )

    def reportLatestOffset(self) -> Nested | None:
        """The newest offsets known, for the query's progress; sends no request."""
        return to_nested(self._progress.newest) or None

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end: messages that come later are not read."""
        self._progress.stop_at_present()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of a micro-batch, cut into tasks."""
        self._progress.incarnations.know(marks_in(end))
        ranges = self._progress.plan(from_nested(start), from_nested(end))
        return split_to_tasks(ranges, self._options, self._progress.sizes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of the ranges of one task; runs in a Spark worker."""
        assert isinstance(partition, RangesPartition)
        brokers = self._connect(self._options)
        freeze_once()
        return read_ranges(brokers, partition.ranges, self._options, arrow_schema(self._schema))

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has written down the batch that ends here."""
        self._progress.committed(from_nested(end))

    def stop(self) -> None:
        """Nothing to do: Spark mostly kills this process instead of calling this."""
