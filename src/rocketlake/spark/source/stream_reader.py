"""spark.readStream.format("rocketmq"): offsets of each micro-batch, and reading it.

Owns        the first offsets, the end of each micro-batch, its size limit, availableNow, progress of the group.
Must not know   how offsets are asked for (brokers.py), how rows are made (range_read.py).

Spark keeps the offsets of each micro-batch in its checkpoint and reads [start, end) again after a failure. So all that
is decided here must be decided once and then stand in those offsets, or in start_store.py for the very first ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence, Set
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from rocketlake.base.errors import LinkError, RocketLakeError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.schema import arrow_schema
from rocketlake.spark.source.brokers import Brokers, bounds_of, keep_offsets, next_offsets_of, with_retries
from rocketlake.spark.source.cluster_brokers import connect
from rocketlake.spark.source.offsets import Nested, Offsets, describe, from_nested, share_limit, to_nested
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.plan import QueueRange, RangePartition, ranges_between, split
from rocketlake.spark.source.range_read import DataLoss, read_range
from rocketlake.spark.source.start_store import StartStore, start_store

__all__ = ["RocketMQStreamReader"]

log = get_logger(__name__)

_LOOK_SECONDS_MIN = 0.1
_LOOK_SECONDS_MAX = 0.5
_ROUTE_SECONDS = 5.0
_ROUTE_MISSING_SECONDS_MAX = 90.0


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's view of the stream. Driver calls go to one `_Progress`; `read` runs in workers, from the pickled copy."""

    def __init__(
        self, options: SourceOptions, schema: StructType, connect: Callable[[SourceOptions], Brokers] = connect
    ) -> None:
        self._options = options
        self._schema = schema
        self._connect = connect
        self._made: _Progress | None = None

    def __getstate__(self) -> dict[str, Any]:
        # What the driver knows stays on the driver: connections cannot travel.
        return self.__dict__ | {"_made": None}

    @property
    def _progress(self) -> _Progress:
        if self._made is None:
            self._made = _Progress(self._options, self._connect(self._options))
        return self._made

    def initialOffset(self) -> Nested:
        """First offsets. Spark asks twice for batch 0, and again after a restart before batch 0 was done."""
        return to_nested(self._progress.first_offsets())

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxOffsetsPerTrigger, or no limit."""
        limit = self._options.max_offsets_per_trigger
        return ReadMaxRows(limit) if limit is not None else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Nested:
        """End of the next micro-batch; equal to `start` when there is nothing new."""
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return to_nested(self._progress.next_end(from_nested(start), rows))

    def reportLatestOffset(self) -> Nested | None:
        """The newest offsets known, for the query's progress; asks nobody."""
        return to_nested(self._progress.newest) or None

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on nothing newer than what is there now is read."""
        self._progress.stop_at_present()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of a micro-batch, cut into tasks."""
        ranges = self._progress.plan(from_nested(start), from_nested(end))
        options = self._options
        parts = split(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
        return [RangePartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of one range; runs in a Spark worker."""
        assert isinstance(partition, RangePartition)
        brokers = self._connect(self._options)
        return read_range(brokers, partition.range, self._options, arrow_schema(self._schema))

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has written down the batch that ends here."""
        self._progress.committed(from_nested(end))

    def stop(self) -> None:
        """Nothing to do: Spark mostly kills this process instead (reference spark.md 1.2 fact 13)."""


class _Progress:
    """What the driver knows of a running stream."""

    def __init__(self, options: SourceOptions, brokers: Brokers) -> None:
        self._options = options
        self._brokers = brokers
        self._starts: StartStore = start_store(options, brokers)
        self._first: Offsets | None = None
        self._commits = 0
        self._is_forgotten = False
        self._target: Offsets | None = None
        self._published: Offsets | None = None
        self._queues: set[MessageQueue] = set()
        self._joined: set[MessageQueue] = set()
        self._queues_known_at = float("-inf")
        self._routed_at: dict[str, float] = {}
        self._next_look = float("-inf")
        self._look_seconds = _LOOK_SECONDS_MIN
        self.newest: Offsets = {}

    # -- the first offsets

    def first_offsets(self) -> Offsets:
        """Chosen once; kept in the start store before Spark hears of them."""
        if self._first is None:
            queues = self._find_queues()
            kept = self._starts.load(queues)
            self._first = self._with_new_queues(kept) if kept else self._choose_first()
            if self._first != kept:
                self._starts.save(self._first)
        return self._first

    def _choose_first(self) -> Offsets:
        bounds = self._brokers.run(bounds_of(self._brokers, self._options, self._queues))
        low = {queue: each.low for queue, each in bounds.items()}
        return self._options.starting.resolve(low, {queue: each.high for queue, each in bounds.items()})

    def _with_new_queues(self, kept: Offsets) -> Offsets:
        log.warning(
            "the stream starts at the offsets it chose when it was first started, kept in %s; "
            "option 'startingOffsets' is not looked at again",
            self._starts.name,
        )
        new = self._queues - kept.keys()
        return kept | self._first_available(new)

    def _first_available(self, queues: Set[MessageQueue]) -> Offsets:
        bounds = self._brokers.run(bounds_of(self._brokers, self._options, queues))
        return {queue: each.low for queue, each in bounds.items()}

    def _checkpoint_knows(self, offsets: Offsets) -> None:
        """Spark goes on from a checkpoint without asking for first offsets: they were kept long enough."""
        if self._first is None:
            self._forget_first(offsets)

    def _forget_first(self, queues: Collection[MessageQueue]) -> None:
        if self._is_forgotten:
            return
        self._is_forgotten = True
        try:
            self._starts.forget(queues)
        except (RocketLakeError, OSError) as error:
            # Harmless, and done again at the next start: Spark's checkpoint has the say from here on.
            log.warning("first offsets stay in %s: %s", self._starts.name, error)

    # -- the end of a micro-batch

    def next_end(self, start: Offsets, limit: int | None) -> Offsets:
        """Where the next micro-batch ends; new queues join with their first offset and no rows."""
        self._checkpoint_knows(start)
        self._publish(start)
        target = self._target if self._target is not None else self._look(start)
        ends = {queue: target.get(queue, offset) for queue, offset in start.items()}
        for queue, offset in start.items():
            if ends[queue] < offset:
                ends[queue] = self._cut_queue(queue, offset, ends[queue])
        if limit is not None:
            ends = share_limit(start, ends, limit)
        new = target.keys() - start.keys()
        return ends | self._join(new) if new else ends

    def _join(self, new: Set[MessageQueue]) -> Offsets:
        """First offsets of queues found now. One whose broker was away since the start may have one kept."""
        self._joined |= new
        kept = self._starts.load(new)
        return self._first_available(new) | {queue: kept[queue] for queue in new & kept.keys()}

    def _cut_queue(self, queue: MessageQueue, start: int, high: int) -> int:
        """A queue that ends before what was read of it: the topic was made anew, or its broker lost its tail."""
        loss = DataLoss(QueueRange(queue, start, start + 1), start, 0, high)
        if self._options.fail_on_data_loss:
            raise loss
        log.warning("reading goes on at the queue's first message (failOnDataLoss = false): %s", loss)
        return high

    def stop_at_present(self) -> None:
        """Fix the target of an availableNow run."""
        self._find_queues()
        self._target = self._ask_newest()

    def _look(self, start: Offsets) -> Offsets:
        """The newest offsets; an idle stream asks the brokers less and less often, at most every half second."""
        now = self._brokers.monotonic()
        has_news = any(offset > start.get(queue, -1) for queue, offset in self.newest.items())
        if now < self._next_look:
            if has_news:
                return self.newest
            # Spark comes back every 10 ms when idle; waiting here spares it the turns.
            self._brokers.run(self._brokers.sleep(min(self._next_look - now, _LOOK_SECONDS_MIN)))
            if self._brokers.monotonic() < self._next_look:
                return self.newest
        before = self.newest
        self._find_queues()
        newest = self._ask_newest()
        idle = newest == before
        self._look_seconds = min(self._look_seconds * 1.5, _LOOK_SECONDS_MAX) if idle else _LOOK_SECONDS_MIN
        self._next_look = self._brokers.monotonic() + self._look_seconds
        return newest

    def _ask_newest(self) -> Offsets:
        self.newest = self._brokers.run(next_offsets_of(self._brokers, self._options, self._queues))
        return self.newest

    def _find_queues(self) -> set[MessageQueue]:
        """Queues by the routes, looked at every five seconds."""
        now = self._brokers.monotonic()
        if now - self._queues_known_at >= _ROUTE_SECONDS:
            found = {queue for topic in self._options.topics for queue in self._queues_of(topic, now)}
            for queue in sorted(self._queues - found):
                log.warning("%s is not in the route any more; it is read on when it comes back", describe(queue))
            self._queues, self._queues_known_at = found, now
        return self._queues

    def _queues_of(self, topic: str, now: float) -> Collection[MessageQueue]:
        """Empty for a known topic whose route is missing for a short time: a name server that restarted is told all
        routes by the brokers within 30 s."""
        what = f"asking the route of {topic}"
        try:
            found = self._brokers.run(
                with_retries(self._brokers, self._options, what, lambda: self._brokers.queues(topic))
            )
        except UsageError:
            missed = now - self._routed_at.get(topic, float("-inf"))
            if missed > _ROUTE_MISSING_SECONDS_MAX and (
                self._options.fail_on_data_loss or topic not in self._routed_at
            ):
                raise
            return ()
        self._routed_at[topic] = now
        return found

    # -- planning and after

    def plan(self, start: Offsets, end: Offsets) -> list[QueueRange]:
        """Ranges of a micro-batch, which may be an old one planned again."""
        self._checkpoint_knows(start)
        self._check_first_batch(start, end)
        ranges = ranges_between(start, end)
        for index, each in enumerate(ranges):
            if each.size < 0:
                # Planned only with failOnDataLoss = false (see _cut_queue): the queue begins anew.
                ranges[index] = QueueRange(each.queue, 0, each.end)
        return [each for each in ranges if each.size]

    def _check_first_batch(self, start: Offsets, end: Offsets) -> None:
        """Batch 0, planned again while a broker is away: where it starts there cannot be known, so it must wait."""
        lost = sorted(end.keys() - start.keys() - self._joined)
        if self._first is not None and lost:
            raise LinkError(
                f"the first batch must be done again, and its start is not known for {describe(lost[0])}: "
                "the broker is not in the route",
                where=f"name server {self._options.namesrv}",
                hint="start the query again when the broker is back",
            )

    def committed(self, end: Offsets) -> None:
        """After the second batch Spark's checkpoint cannot need the first offsets any more, in any of its modes."""
        self._checkpoint_knows(end)
        self._commits += 1
        if self._commits >= 2:
            self._forget_first(end)

    def _publish(self, start: Offsets) -> None:
        """Tell the brokers how far the query is, for lag tools; Spark's own checkpoint decides where it goes on."""
        if not self._options.consumer_group or start == self._published:
            return

        moved = {queue: offset for queue, offset in start.items() if (self._published or {}).get(queue) != offset}
        try:
            self._brokers.run(keep_offsets(self._brokers, self._options, self._options.consumer_group, moved))
        except RocketLakeError as error:
            log.warning("progress of group %s was not published: %s", self._options.consumer_group, error)
        self._published = start
