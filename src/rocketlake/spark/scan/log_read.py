"""Read a stretch of the commit log: its records, and the damaged bytes between them.

Owns        the walk through a range, chunk by chunk; the next record behind damage; telling damage from the log's end.
Must not know   rows and columns, which records are wanted, how ranges are made.

Bytes are read, never mapped: a broker may cut a file meanwhile. Damaged bytes raise no error, unless the read is to
fail on damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rocketlake.base.errors import StoreError
from rocketlake.codec.record_walk import BLANK, END, find_record, walk
from rocketlake.spark.columns import Records
from rocketlake.spark.record_form import Ints
from rocketlake.spark.scan.parts import LogRange
from rocketlake.store.offset_files import OffsetFiles

__all__ = ["FRAME_STATUS", "Found", "Stretch", "read_log"]

FRAME_STATUS = {
    "ok": "a record in its place",
    "recovered": "a record behind damage, found by searching; its consume queue names it",
    "unconfirmed": "a record behind damage that no consume queue names: perhaps left from an earlier use",
    "deleted": "a record of a topic that was deleted since",
    "damaged": "bytes that are no record, inside the log",
    "torn": "bytes that are no record, at the end of the log",
    "blank": "the unused rest of a file",
}

CHUNK_BYTES = 2 << 20
"""Read at once. Smaller and larger batches cost Spark more per row."""
_SEARCH_BYTES = 16 << 20
_RECORD_BYTES_MAX = 8 << 20
"""Beyond this no record is searched for behind damage; brokers take bodies up to 4 MiB."""


@dataclass(slots=True)
class Found:
    """Records one behind the other."""

    records: Records
    is_searched: bool
    """True behind damage: the records were found by a search."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes that are no record; `status` is damaged, torn or blank."""

    position: int
    size: int
    status: str


def read_log(log: OffsetFiles, part: LogRange, *, fail_on_corrupt: bool = False) -> Iterator[Found | Stretch]:
    """The records and stretches of the range. StoreError at damage with `fail_on_corrupt`, also for a torn end.

    Behind `part.safe_end` the log ends at the first body that has not its checksum, as a broker's recovery ends it.
    """
    for found in _Walker(log, part).run():
        if isinstance(found, Stretch) and found.status != "blank" and fail_on_corrupt:
            raise StoreError(
                f"{found.size} bytes of the commit log are no sound record ({found.status})",
                path=str(log.path(found.position)),
                offset=found.position,
                hint="set 'failOnCorrupt' = false to read the rest",
            )
        yield found


class _Walker:
    def __init__(self, log: OffsetFiles, part: LogRange) -> None:
        self._log = log
        self._part = part
        self._position = max(part.start, log.start)
        self._is_searched = False

    def run(self) -> Iterator[Found | Stretch]:
        size = CHUNK_BYTES
        while self._position < self._part.end:
            start = self._position
            data = self._log.read(start, size)
            if not data:
                yield from self._pass_hole()
                continue
            places, taken, status = walk(data, start)
            starts = np.frombuffer(places, dtype=np.int64)
            if start + taken > self._part.end:
                inside = int(np.searchsorted(starts, self._part.end - start))
                taken = int(starts[inside]) if inside < len(starts) else taken
                starts, status = starts[:inside], END
            sound = self._sound_end(data, starts, start)
            if sound is not None:
                starts, taken, status = starts[:sound], int(starts[sound]), -1
            if len(starts):
                yield Found(Records(data, starts, inner_batches=True), self._is_searched)
                size = CHUNK_BYTES
            self._position += taken
            if self._position >= self._part.end:
                return
            if status == END and not taken and len(data) == size and self._is_cut(data, start):
                size = int.from_bytes(data[:4], "big")
            elif status == BLANK and self._fills_its_file(data[taken : taken + 4]):
                yield self._to_next_file()
            elif status != END or not taken:
                yield from self._pass_damage()

    def _sound_end(self, data: bytes, starts: Ints, base: int) -> int | None:
        """Number of the first record behind everything that is queued whose body has not its checksum: the log ends."""
        if not self._part.is_tail or not len(starts) or base + int(starts[-1]) < self._part.safe_end:
            return None
        first = int(np.searchsorted(starts, self._part.safe_end - base))
        bad = np.flatnonzero(~Records(data, starts[first:], inner_batches=True).crc_ok)
        return first + int(bad[0]) if len(bad) else None

    def _is_cut(self, data: bytes, position: int) -> bool:
        """True if the record at `position` goes on behind the bytes that were read."""
        size = int.from_bytes(data[:4], "big", signed=True)
        return len(data) >= 8 and len(data) < size <= self._log.file_end(position) - position

    def _fills_its_file(self, size: bytes) -> bool:
        """True if a blank of this size at the position ends with its file; other blanks are damaged records."""
        return (
            self._position + int.from_bytes(size, "big") == self._log.file_start(self._position) + self._log.file_size
        )

    def _to_next_file(self) -> Stretch:
        start = self._position
        self._position, self._is_searched = self._log.file_start(start) + self._log.file_size, False
        return Stretch(start, self._position - start, "blank")

    def _pass_hole(self) -> Iterator[Stretch]:
        """Pass bytes that cannot be read: their file is missing, or shorter than it should be."""
        start, self._is_searched = self._position, False
        if start >= self._log.end:
            self._position = self._part.end
            return
        self._position = min(self._log.file_end(start), self._part.end)
        yield Stretch(start, self._position - start, "damaged")

    def _pass_damage(self) -> Iterator[Stretch]:
        """Go on at the next record of this file; at the next file, or the end of the range, if there is none."""
        start, limit = self._position, min(self._part.end, self._log.file_end(self._position))
        is_end = self._part.is_tail and limit == self._part.end and start >= self._part.safe_end
        if is_end and self._log.is_zero_from(start):
            self._position = self._part.end
            return
        last_used = start  # end of the last byte that is not zero
        at = start + 1
        while at < limit:
            data = self._log.read(at, min(_SEARCH_BYTES, limit + _RECORD_BYTES_MAX - at))
            if not data:
                break
            hit = find_record(data, 0, at)
            if 0 <= hit < limit - at:
                if self._has_appeared(start):
                    return
                self._position, self._is_searched = at + hit, True
                yield Stretch(start, self._position - start, "damaged")
                return
            used = data.rstrip(b"\0")
            last_used = at + len(used) if used else last_used
            if not used and self._log.is_zero_from(at):
                break
            at += max(1, len(data) - _RECORD_BYTES_MAX) if at + len(data) < limit else len(data)
        if self._has_appeared(start):
            return
        if self._log.read(start, 1) not in (b"", b"\0"):
            last_used = max(last_used, start + 1)
        self._position, self._is_searched = limit, False
        if not is_end:
            yield Stretch(start, limit - start, "damaged")
        elif last_used > start:
            yield Stretch(start, min(last_used, limit) - start, "torn")

    def _has_appeared(self, position: int) -> bool:
        """True if a running broker has written a record here meanwhile; never for queued records, which are older."""
        if position < self._part.safe_end:
            return False
        data = self._log.read(position, _RECORD_BYTES_MAX)
        starts, _taken, _status = walk(data, position)
        return bool(starts) and self._sound_end(data, np.zeros(1, dtype=np.int64), position) is None
