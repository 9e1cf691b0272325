"""Read exact ranges of queues as Arrow batches: the same rows each time, or an error that names the loss.

Owns        the check that no message is missing, the second filter behind the broker's.
Must not know   how ranges are pulled (range_walk.py), how they are planned, Spark's reader classes.

Invariant: without a filter each row's queue offset is the one before plus one, from start to end - 1 of a range.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice

import numpy as np
import pyarrow as pa

from rocketlake.base.errors import LinkError
from rocketlake.base.logs import get_logger
from rocketlake.model import property_names
from rocketlake.model.subscription import parse_subscription
from rocketlake.spark.columns import READ_FAULTS, Records, record_batches
from rocketlake.spark.source.brokers import Brokers
from rocketlake.spark.source.damage import sound_parts, whole_chunk
from rocketlake.spark.source.losses import lose, lose_damaged
from rocketlake.spark.source.offsets import describe
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.own_walk import OwnWalk
from rocketlake.spark.source.plan import QueueRange
from rocketlake.spark.source.range_walk import Chunk, RangeWalk

__all__ = ["read_ranges"]

log = get_logger(__name__)

_BEGUN_MAX = 16
"""How many ranges of one task are read at the same time; such ranges are small."""

_OWN_RECORDS_MIN = 4096
"""A range of which less is left is not worth a link of its own."""
_OWN_TRIES = 3
"""How often such a link is opened without one chunk that comes over it."""

_GONE = "they expired, the topic was cut or made anew, or the broker passes over what it cannot read"

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


def read_ranges(
    brokers: Brokers, ranges: Sequence[QueueRange], options: SourceOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Arrow batches of the ranges, one after the other, each in queue order.

    The first chunk of the next few ranges is asked for in advance, as is the next one of a range while Spark takes the
    one before. Raises DataLoss when messages of a range are gone and failOnDataLoss is set, LinkError when the
    brokers are out of reach.
    """
    walks = (RangeWalk(brokers, wanted, options) for wanted in ranges)
    begun = ((walk, brokers.submit(walk.next_chunk())) for walk in walks)
    ahead = deque(islice(begun, _BEGUN_MAX))
    while ahead:
        walk, first = ahead.popleft()
        yield from _batches(brokers, walk, first, options, schema)
        ahead.extend(islice(begun, 1))


def _batches(
    brokers: Brokers, walk: RangeWalk, coming: Future[Chunk | None], options: SourceOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for chunk in _chunks(brokers, walk, coming, options):
        reading = _ChunkRead(brokers, walk, chunk, options, schema)
        yield from reading.batches()
        reading.tell_losses()


def _chunks(brokers: Brokers, walk: RangeWalk, coming: Future[Chunk | None], options: SourceOptions) -> Iterator[Chunk]:
    """The chunks of a range. Each is over when the next is asked for.

    Where much is left the rest is read over a link of this thread. Each time that way ends early the walk, which knows
    retries and losses, reads the next chunk.
    """
    tries = _OWN_TRIES
    while (chunk := coming.result()) is not None:
        own = _own_walk(brokers, walk, options) if tries else None
        if own is None:
            tries = 0
            coming = brokers.submit(walk.next_chunk())
            yield chunk
            continue
        yield chunk
        tries -= 1
        for read in own.chunks():
            yield read
            tries = _OWN_TRIES
        coming = brokers.submit(walk.next_chunk())


def _own_walk(brokers: Brokers, walk: RangeWalk, options: SourceOptions) -> OwnWalk | None:
    if options.is_filtered or walk.wanted.end - walk.position < _OWN_RECORDS_MIN:
        return None
    try:
        link = brokers.pull_link(walk.wanted.queue)
    except LinkError as error:
        log.info("reading %s goes on over the common link: %s", describe(walk.wanted.queue), error)
        return None
    return None if link is None else OwnWalk(link, walk, options.pull_batch_size)


class _ChunkRead:
    """The rows of one chunk, and its missing offsets."""

    def __init__(
        self, brokers: Brokers, walk: RangeWalk, chunk: Chunk, options: SourceOptions, schema: pa.Schema
    ) -> None:
        self._brokers = brokers
        self._walk = walk
        self._wanted = walk.wanted
        self._chunk = chunk
        self._options = options
        self._schema = schema
        self._tags = parse_subscription(walk.wanted.queue.topic, options.tags).tags
        self._given_to = chunk.start
        self._offsets = np.empty(0, dtype=np.int64)
        self._damaged: dict[int, str] = {}

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows of all records that can be read."""
        with_bodies = "body" in self._schema.names
        try:
            yield from self._rows(whole_chunk(self._chunk, with_bodies=with_bodies))
        except READ_FAULTS:
            found = sound_parts(self._brokers, self._wanted, self._chunk, self._options, with_bodies=with_bodies)
            self._damaged = {each.offset: each.reason for each in found[1]}
            yield from self._rows(found[0])

    def _rows(self, records: Records) -> Iterator[pa.RecordBatch]:
        """Batches of the records behind those that were given before."""
        self._offsets = records.queue_offsets
        if self._given_to > self._chunk.start:
            records = records.take(self._offsets >= self._given_to)
        if self._tags:
            records = _with_tags(records, self._tags)
        if not len(records):
            return
        rows = 0
        for batch in record_batches(records, self._wanted.queue.broker_name, self._schema):
            yield batch
            rows += batch.num_rows
            self._given_to = int(records.queue_offsets[rows - 1]) + 1

    def tell_losses(self) -> None:
        """Raise DataLoss for missing offsets, or count them."""
        if self._options.is_filtered:
            lost = sorted([*self._chunk.gone, *((offset, offset + 1) for offset in self._damaged)])
        else:
            lost = _missing(self._offsets, self._chunk)
        for low, high in lost:
            for begin, end in _cut(low, high, self._damaged):
                reason = self._damaged.get(begin)
                if reason is None:
                    lose(self._options, self._wanted, begin, end, self._walk.bounds, _GONE)
                else:
                    lose_damaged(self._options, self._wanted, begin, self._walk.bounds, reason)


def _missing(offsets: Ints, chunk: Chunk) -> list[tuple[int, int]]:
    """Offsets of [chunk.start, chunk.end) that no record has, as ranges."""
    if not len(offsets):
        return [(chunk.start, chunk.end)]
    holes = [(int(offsets[at]) + 1, int(offsets[at + 1])) for at in np.flatnonzero(np.diff(offsets) > 1).tolist()]
    ends = [(chunk.start, int(offsets[0])), *holes, (int(offsets[-1]) + 1, chunk.end)]
    return [(low, high) for low, high in ends if low < high]


def _cut(low: int, high: int, damaged: Collection[int]) -> Iterator[tuple[int, int]]:
    """The range in pieces; each damaged record is a piece of its own."""
    for offset in sorted(each for each in damaged if low <= each < high):
        if low < offset:
            yield low, offset
        yield offset, offset + 1
        low = offset + 1
    if low < high:
        yield low, high


def _with_tags(records: Records, tags: frozenset[str]) -> Records:
    # The broker filters by a hash of the tag; messages whose tag only has the same hash are dropped here.
    keep = np.array([tag in tags for tag in records.property_values(property_names.TAGS)], dtype=np.bool_)
    return records if bool(keep.all()) else records.take(keep)
