"""Read exact ranges of queues as Arrow batches: the same rows each time, or an error that says what is gone.

Owns        the check that nothing is missing, dropping what a broker's filter let through by mistake.
Must not know   how ranges are pulled (range_walk.py), where they come from, Spark's reader classes.

Invariant: without a filter each row's queue offset is the one before plus one, from start to end - 1 of a range.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import islice

import numpy as np
import pyarrow as pa

from rocketlake.base.errors import ProtocolError
from rocketlake.model import property_names
from rocketlake.model.subscription import parse_subscription
from rocketlake.spark.columns import Records, record_batches, record_starts
from rocketlake.spark.source.brokers import Brokers
from rocketlake.spark.source.losses import lose
from rocketlake.spark.source.offsets import describe
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.plan import QueueRange
from rocketlake.spark.source.range_walk import Chunk, RangeWalk

__all__ = ["read_ranges"]

_BEGUN_MAX = 16
"""Ranges of one task that are read at the same time; they are small."""

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


def read_ranges(
    brokers: Brokers, ranges: Sequence[QueueRange], options: SourceOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Arrow batches of the ranges, one after the other, each in queue order.

    The first chunk of the next few ranges is asked for in advance, as is the next one of a range while Spark takes the
    one before. DataLoss when messages of a range are gone and failOnDataLoss is set; LinkError when the brokers cannot
    be asked.
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
    wanted = walk.wanted
    tags = parse_subscription(wanted.queue.topic, options.tags).tags
    while (chunk := coming.result()) is not None:
        coming = brokers.submit(walk.next_chunk())
        records = _checked(chunk, wanted, options, walk)
        if tags:
            records = _with_tags(records, tags)
        if len(records):
            yield from record_batches(records, wanted.queue.broker_name, schema)


def _checked(chunk: Chunk, wanted: QueueRange, options: SourceOptions, walk: RangeWalk) -> Records:
    """The records of the chunk, none outside of it; what is missing is lost."""
    data = chunk.answers[0] if len(chunk.answers) == 1 else b"".join(chunk.answers)
    records = Records(data, record_starts(data))
    offsets = records.queue_offsets
    if len(offsets) and not (chunk.start <= offsets[0] and offsets[-1] < chunk.end):
        records = records.take((offsets >= chunk.start) & (offsets < chunk.end))
        offsets = records.queue_offsets
    steps = np.diff(offsets)
    if bool((steps < 1).any()):
        raise ProtocolError(f"a pull answer of {describe(wanted.queue)} is not in queue order: {offsets[:8]}")
    for low, high in chunk.gone if options.is_filtered else _missing(offsets, steps, chunk):
        lose(options, wanted, low, high, walk.bounds, "they expired, or the topic was cut or made anew")
    return records


def _missing(offsets: Ints, steps: Ints, chunk: Chunk) -> list[tuple[int, int]]:
    """Offsets of [chunk.start, chunk.end) that no record has, as ranges."""
    if not len(offsets):
        return [(chunk.start, chunk.end)]
    holes = [(int(offsets[at]) + 1, int(offsets[at + 1])) for at in np.flatnonzero(steps > 1).tolist()]
    ends = [(chunk.start, int(offsets[0])), *holes, (int(offsets[-1]) + 1, chunk.end)]
    return [(low, high) for low, high in ends if low < high]


def _with_tags(records: Records, tags: frozenset[str]) -> Records:
    # The broker filters by a hash of the tag; messages whose tag only has the same hash are dropped here.
    keep = np.array([tag in tags for tag in records.property_values(property_names.TAGS)], dtype=np.bool_)
    return records if bool(keep.all()) else records.take(keep)
