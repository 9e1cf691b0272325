"""Chunks with damaged records: the sound ones are read, the others are named.

Owns        the test whether a record can be read, the search for damaged ones, the second pull of these.
Must not know   the fate of a damaged record (losses.py), Arrow schemas.

Rule: a damaged record costs itself only. An answer with a damaged record is pulled again, one message at a time: so the
lengths of a broken record hide no other one, and records that were damaged on their way only are read after all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rocketlake.base.errors import ProtocolError, UsageError
from rocketlake.codec.record import decode_record
from rocketlake.codec.record_batch import unwrap_batch
from rocketlake.codec.record_layout import RecordError
from rocketlake.spark.columns import BODY_BYTES_MAX, READ_FAULTS, Records, record_starts
from rocketlake.spark.source.brokers import Brokers
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.plan import QueueRange
from rocketlake.spark.source.range_walk import Answer, Chunk, RangeWalk

__all__ = ["Damaged", "sound_parts", "whole_chunk"]


@dataclass(frozen=True, slots=True)
class Damaged:
    """A record that cannot be read."""

    offset: int
    reason: str


def whole_chunk(chunk: Chunk, *, with_bodies: bool) -> Records:
    """The records of a chunk; one of READ_FAULTS if any is damaged. Compressed bodies are looked at when unpacked."""
    return _records(_side_by_side(chunk), chunk.start, chunk.end, with_bodies=with_bodies)


def _side_by_side(chunk: Chunk) -> bytes | memoryview:
    if chunk.whole is not None:
        return chunk.whole
    return chunk.answers[0].data if len(chunk.answers) == 1 else b"".join(answer.data for answer in chunk.answers)


def _records(data: bytes | memoryview, start: int, end: int, *, with_bodies: bool) -> Records:
    records = Records(data, record_starts(data))
    offsets = records.queue_offsets
    if len(offsets) and not (start <= offsets[0] and offsets[-1] < end):
        records = records.take((offsets >= start) & (offsets < end))
        offsets = records.queue_offsets
    if bool((np.diff(offsets) < 1).any()):
        raise ProtocolError(f"not in queue order: {offsets[:8]}")
    if with_bodies:
        records.check_bodies()
    return records


def sound_parts(
    brokers: Brokers, wanted: QueueRange, chunk: Chunk, options: SourceOptions, *, with_bodies: bool
) -> tuple[Records, list[Damaged]]:
    """The sound and the damaged records of a chunk. Offsets that the broker lost meanwhile are added to `chunk.gone`.

    UsageError when the queue is one of a batch topic.
    """
    parts: list[bytes | memoryview] = []
    damaged: list[Damaged] = []
    for answer in chunk.answers:
        try:
            parts.append(_sound_part(answer, with_bodies=with_bodies))
        except READ_FAULTS:
            for single in _one_by_one(brokers, QueueRange(wanted.queue, answer.start, answer.end), chunk, options):
                try:
                    parts.append(_sound_part(single, with_bodies=with_bodies))
                except READ_FAULTS as error:
                    _refuse_batch_queue(single, error)
                    damaged.append(Damaged(single.start, getattr(error, "what", str(error))))
    data = b"".join(parts)
    return Records(data, record_starts(data)), damaged


def _one_by_one(brokers: Brokers, wanted: QueueRange, chunk: Chunk, options: SourceOptions) -> Iterator[Answer]:
    walk = RangeWalk(brokers, wanted, replace(options, pull_batch_size=1))
    while (piece := brokers.run(walk.next_chunk())) is not None:
        chunk.gone += piece.gone
        yield from piece.answers


def _sound_part(answer: Answer, *, with_bodies: bool) -> bytes | memoryview:
    """The bytes of the records that belong to this answer; an answer may lead beyond its end."""
    records = Records(answer.data, record_starts(answer.data))
    offsets = records.queue_offsets
    if bool((offsets < answer.start).any() or (offsets >= max(answer.end, answer.next_offset)).any()):
        raise ProtocolError(f"it says it has queue offset {offsets[0]}, not {answer.start}")
    if bool((np.diff(offsets) < 1).any()):
        raise ProtocolError(f"not in queue order: {offsets[:8]}")
    records = records.take(offsets < answer.end)
    if with_bodies:
        records.check_bodies()
        for _rows, _bodies in records.unpacked(lenient=False, bytes_max=BODY_BYTES_MAX):
            pass
    return answer.data[: int(records.sizes.sum())]


def _refuse_batch_queue(answer: Answer, error: Exception) -> None:
    """Raise the error if this is a sound record of a batch queue."""
    if not isinstance(error, UsageError):
        return
    try:
        is_batch = len(unwrap_batch(decode_record(answer.data))) > 0
    except RecordError:
        is_batch = False
    if is_batch:
        raise error
