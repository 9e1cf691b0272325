"""Read records whose places are known: neighbours by one read, distant ones by one read each.

Owns        the places that share a read, the handling of places where no record starts.
Must not know   how places were found, rows and columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rocketlake.base.errors import StoreError
from rocketlake.codec.record_layout import RECORD_BYTES_MIN
from rocketlake.codec.record_walk import sound_starts
from rocketlake.spark.columns import Records
from rocketlake.spark.record_form import Ints
from rocketlake.spark.scan.log_read import CHUNK_BYTES
from rocketlake.spark.scan.parts import Places, QueueSlice
from rocketlake.store.consume_queue.entry import ENTRY_SIZE, FILLER_SIZE
from rocketlake.store.offset_files import OffsetFiles

__all__ = ["QUEUE_ENTRIES", "read_places", "read_slice"]

QUEUE_ENTRIES = np.dtype([("place", ">i8"), ("size", ">i4"), ("tag", ">i8")])
_ENTRIES_AT_ONCE = 16_384
_GAP_BYTES = 16 << 10
"""Reading over so many unwanted bytes costs no more than another read."""
_ROWS_MAX = 8192


def read_slice(
    log: OffsetFiles, queue: OffsetFiles, part: QueueSlice, *, fail_on_corrupt: bool, tag_codes: frozenset[int] | None
) -> Iterator[Records]:
    """The records of a slice of a queue, in queue order; with `tag_codes` those whose entries have one of them.

    StoreError for a missing one with `fail_on_corrupt`.
    """
    wanted_codes = None if tag_codes is None else np.array(sorted(tag_codes), dtype=np.int64)
    offset = part.start
    while offset < part.end:
        count = min(part.end - offset, _ENTRIES_AT_ONCE)
        data = queue.read(offset * ENTRY_SIZE, count * ENTRY_SIZE)
        entries = np.frombuffer(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE], dtype=QUEUE_ENTRIES)
        if not len(entries):
            return  # expired meanwhile
        is_used = (entries["size"] > 0) & ~((entries["size"] == FILLER_SIZE) & (entries["place"] == 0))
        if wanted_codes is not None:
            is_used &= np.isin(entries["tag"], wanted_codes)
        places, sizes = entries["place"][is_used].astype(np.int64), entries["size"][is_used].astype(np.int64)
        offsets = offset + np.flatnonzero(is_used)
        for records in _read(log, places, sizes, fail_on_corrupt):
            # An entry may name a record that is not its own: the file was used before, or the queue is damaged.
            named = offsets[np.searchsorted(places, records.physical_offsets)]
            own = (records.queue_ids == part.queue_id) & (records.queue_offsets == named)
            yield records if bool(own.all()) else records.take(own)
        offset += len(entries)


def read_places(log: OffsetFiles, part: Places, *, fail_on_corrupt: bool) -> Iterator[Records]:
    """The records at these places; places without a record are left out, or a StoreError with `fail_on_corrupt`."""
    places = np.array(part.positions, dtype=np.int64)
    heads = [log.read(place, 4) for place in part.positions]
    sizes = np.array([int.from_bytes(head, "big", signed=True) for head in heads], dtype=np.int64)
    yield from _read(log, places, np.clip(sizes, 0, log.file_size), fail_on_corrupt)


def _read(log: OffsetFiles, places: Ints, sizes: Ints, fail_on_corrupt: bool) -> Iterator[Records]:
    keep = (sizes >= RECORD_BYTES_MIN) & (places >= log.start) & (places < log.end)
    if fail_on_corrupt and not bool(keep.all()):
        _refuse(log, int(places[np.argmin(keep)]))
    places, sizes = places[keep], sizes[keep]
    for begin, end in _runs(places, sizes, (places - log.start) // max(1, log.file_size)):
        base = int(places[begin])
        data = log.read(base, int(places[end - 1] + sizes[end - 1]) - base)
        wanted = places[begin:end] - base
        starts = np.frombuffer(sound_starts(data, np.ascontiguousarray(wanted), base), dtype=np.int64)
        if len(starts) < end - begin and fail_on_corrupt:
            _refuse(log, base + int(np.setdiff1d(wanted, starts)[0]))
        if len(starts):
            yield Records(data, starts, inner_batches=True)


def _runs(places: Ints, sizes: Ints, files: Ints) -> Iterator[tuple[int, int]]:
    """[begin, end) of places that one read takes: in one file, rising, near each other, a chunk together."""
    begin = 0
    ends = (places + sizes).tolist()
    starts = places.tolist()
    for number in range(1, len(starts) + 1):
        if (
            number == len(starts)
            or files[number] != files[begin]
            or not 0 <= starts[number] - ends[number - 1] <= _GAP_BYTES
            or ends[number] - starts[begin] > CHUNK_BYTES
            or number - begin >= _ROWS_MAX
        ):
            yield begin, number
            begin = number


def _refuse(log: OffsetFiles, place: int) -> None:
    raise StoreError(
        "no sound record lies where a consume queue or the key index says",
        path=str(log.path(place)),
        offset=place,
        hint="set 'failOnCorrupt' = false to leave it out",
    )
