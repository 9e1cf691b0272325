"""Read one exact range of one queue as Arrow batches: the same rows each time, or an error that says what is gone.

Owns        walking a range by pulls, the size of Arrow batches, deciding that messages are lost.
Must not know   where ranges come from, Spark's reader classes.

Invariant: without a tag filter each row's queue offset is the one before plus one, from start to end - 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from rocketlake.base.errors import ProtocolError, RemoteError
from rocketlake.base.logs import get_logger
from rocketlake.model.subscription import Subscription, parse_subscription
from rocketlake.spark.columns import Records, record_batch, record_starts
from rocketlake.spark.source.brokers import Brokers, Pulled, PullOutcome, with_retries
from rocketlake.spark.source.offsets import describe
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.plan import QueueRange

__all__ = ["DataLoss", "read_range"]

log = get_logger(__name__)

# Measured (reference spark.md 2.4): larger batches cost more per row than they save.
_BATCH_ROWS = 8192
_BATCH_BYTES = 2 << 20


class DataLoss(RemoteError):
    """Messages that Spark planned to read are not at the broker any more."""

    def __init__(self, wanted: QueueRange, position: int, low: int, high: int) -> None:
        super().__init__(
            f"messages are gone: wanted offsets {position} to {wanted.end - 1} of {describe(wanted.queue)} "
            f"(range {wanted.start} to {wanted.end - 1}), available {low} to {high - 1}",
            code=0,
            hint="they expired, or the topic was cut or made anew; 'failOnDataLoss' = false reads what is left, "
            "a new checkpoint starts again by 'startingOffsets'",
        )


@dataclass(slots=True)
class _Chunk:
    """Records of some pulls, cut to the range."""

    data: bytearray = field(default_factory=bytearray)
    starts: list[int] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.starts) >= _BATCH_ROWS or len(self.data) >= _BATCH_BYTES

    def add(self, pulled: Pulled, starts: list[int]) -> None:
        base = len(self.data)
        self.data += pulled.data
        self.starts += [base + start for start in starts]


def read_range(
    brokers: Brokers, wanted: QueueRange, options: SourceOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Arrow batches of the range, in queue order; the next chunk is pulled while Spark takes this one.

    DataLoss when messages of the range are gone and failOnDataLoss is set; LinkError when the brokers cannot be asked.
    """
    walk = _Walk(brokers, wanted, options)
    coming = brokers.submit(walk.next_chunk())
    while chunk := coming.result():
        coming = brokers.submit(walk.next_chunk())
        records = Records(bytes(chunk.data), chunk.starts)
        if not walk.subscription.tags:
            yield record_batch(records, wanted.queue.broker_name, schema)
            continue
        kept = _with_tags(records, chunk.starts, walk.subscription)
        if kept:
            yield record_batch(Records(records.data, kept), wanted.queue.broker_name, schema)


def _with_tags(records: Records, starts: list[int], subscription: Subscription) -> list[int]:
    # The broker filters by a hash of the tag; messages whose tag only has the same hash are dropped here.
    tags = records.property_values("TAGS")
    return [start for start, tag in zip(starts, tags, strict=True) if tag in subscription.tags]


class _Walk:
    """The position in the range, moved by pulls."""

    def __init__(self, brokers: Brokers, wanted: QueueRange, options: SourceOptions) -> None:
        self.subscription = parse_subscription(wanted.queue.topic, options.tags)
        self._brokers = brokers
        self._wanted = wanted
        self._options = options
        self._position = wanted.start
        self._fruitless = 0

    async def next_chunk(self) -> _Chunk | None:
        """Pull until a batch is full or the range ends; None after its end."""
        chunk = _Chunk()
        while self._position < self._wanted.end and not chunk.is_full:
            await self._pull_into(chunk)
        return chunk if chunk.starts else None

    async def _pull_into(self, chunk: _Chunk) -> None:
        position = self._position
        count = self._options.pull_batch_size
        if not self.subscription.tags:
            count = min(count, self._wanted.end - position)
        pulled = await with_retries(
            self._brokers,
            self._options,
            f"reading {describe(self._wanted.queue)} at offset {position}",
            lambda: self._brokers.pull(self._wanted.queue, position, count),
        )
        if pulled.outcome is PullOutcome.FOUND:
            self._take(pulled, chunk)
        elif pulled.outcome is PullOutcome.NOTHING_MATCHED and self.subscription.tags:
            self._position = max(position, pulled.next_offset)
        elif pulled.outcome is PullOutcome.OUT_OF_RANGE and pulled.bounds.low > position:
            self._lost(pulled, until=pulled.bounds.low)
        if self._position > position:
            self._fruitless = 0
            return
        # A broker that just came back may not yet see the end of its own log: ask some more times before giving up.
        self._fruitless += 1
        if self._fruitless > self._options.retries:
            self._lost(pulled, until=self._wanted.end)
            return
        await self._brokers.sleep(self._options.retry_interval_ms / 1000)

    def _take(self, pulled: Pulled, chunk: _Chunk) -> None:
        starts = record_starts(pulled.data)
        offsets = Records(pulled.data, starts).queue_offsets if starts else np.empty(0, dtype=np.int64)
        inside = (offsets >= self._position) & (offsets < self._wanted.end)
        kept, offsets = [start for start, keep in zip(starts, inside.tolist(), strict=True) if keep], offsets[inside]
        if self.subscription.tags:
            chunk.add(pulled, kept)
            self._position = max(self._position, pulled.next_offset)
            return
        for index in self._holes(offsets):
            self._position = int(offsets[index - 1]) + 1 if index else self._position
            self._lost(pulled, until=int(offsets[index]))
        if kept:
            chunk.add(pulled, kept)
            self._position = int(offsets[-1]) + 1

    def _holes(self, offsets: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
        """Indexes of records that do not follow the one before."""
        steps = np.diff(offsets, prepend=self._position - 1)
        if bool((steps < 1).any()):
            raise ProtocolError(f"a pull answer of {describe(self._wanted.queue)} is not in queue order: {offsets[:8]}")
        holes: list[int] = np.flatnonzero(steps > 1).tolist()
        return holes

    def _lost(self, pulled: Pulled, *, until: int) -> None:
        """Messages from the position to `until` are gone: stop, or say so and go on behind them."""
        loss = DataLoss(self._wanted, self._position, pulled.bounds.low, pulled.bounds.high)
        if self._options.fail_on_data_loss:
            raise loss
        until = min(until, self._wanted.end)
        log.warning("%d messages skipped (failOnDataLoss = false): %s", until - self._position, loss)
        self._position = until
