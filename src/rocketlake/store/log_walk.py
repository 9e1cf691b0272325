"""A walk over the sound records of the commit log.

Owns        where the walk goes on behind known records, blanks and damage; where the log ends.
Must not know   queues, index, where a record goes.

Invariant: the log does not end below what was synced: a broken record there is passed over.

Rules: docs/internals/store_layout.md, "Recovery".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rocketlake.base.clock import Millis
from rocketlake.base.logs import get_logger
from rocketlake.codec.record_layout import BLANK_BYTES, MAGIC_AT, MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from rocketlake.codec.record_parts import properties_block
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.commit_log import CommitLog
from rocketlake.store.dispatch_scan import BLANK, END, DispatchEntry, scan
from rocketlake.store.known_records import KnownRecords
from rocketlake.store.mapped_file import LogFile

__all__ = ["LogWalk"]

_log = get_logger(__name__)

_CHUNK = 1024 * 1024
_MAGICS = tuple(magic.to_bytes(4, "big", signed=True) for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))
_BLANK = struct.Struct(">ii")
"""A blank record: the bytes up to the end of its file, its magic."""


def _unasked(_position: PhysicalOffset) -> None:
    """For walks whose progress is not reported."""


class LogWalk:
    """The sound records from a position on; `end` is behind the last one once `chunks` is exhausted."""

    def __init__(
        self,
        log: CommitLog,
        start: PhysicalOffset,
        safe_end: PhysicalOffset,
        check_crc: bool,
        delays_ms: Sequence[int],
        known: KnownRecords | None = None,
        note_position: Callable[[PhysicalOffset], object] = _unasked,
    ) -> None:
        """`safe_end`: below it everything was synced once, so a broken record there is damage, not the end.

        `known` records are walked over and not given out. `note_position` hears how far the walk is.
        """
        self.end = start
        self.last_store_ms = Millis(0)
        """Store time of the last record, 0 without one."""
        self.damaged_from: PhysicalOffset | None = None
        """Where the first damaged record starts."""
        self._known = known
        self._log = log
        self._safe_end = safe_end
        self._check_crc = check_crc
        self._delays_ms = delays_ms
        self._note_position = note_position

    def chunks(self) -> Iterator[list[DispatchEntry]]:
        """The records in order, in lists of bounded size."""
        for mapped in self._log.list.files:
            if mapped.end <= self.end:
                continue
            yield from self._file(mapped, max(0, self.end - mapped.start))
            if self.end < mapped.end:
                return

    def _file(self, mapped: LogFile, position: int) -> Iterator[list[DispatchEntry]]:
        """The records of one file; `end` is the file's end if the walk may go on in the next."""
        size = _CHUNK
        while position < mapped.size:
            self._note_position(mapped.start + position)
            position += self._passed(mapped, position)
            self._look(mapped, position, size)
            view = mapped.view[position : position + size]
            entries, taken, status = scan(view, mapped.start + position, self._check_crc, self._delays_ms)
            if entries and self._is_torn(view, taken - entries[-1].size, taken, mapped.start + taken + position):
                taken -= entries.pop().size
            if entries:
                self.last_store_ms = entries[-1].store_ms
                yield entries
            position += taken
            self.end = mapped.start + position
            if status == BLANK:
                self.end = mapped.end
                return
            if taken:
                continue
            if status == END and len(view) == size:  # a record longer than the chunk
                size *= 2
                continue
            resumed = self._resume(mapped, position)
            if resumed is None:
                return
            position = resumed
            self.end = mapped.start + position
            size = _CHUNK

    def _look(self, mapped: LogFile, position: int, size: int) -> None:
        """Before bytes are looked at. Raises NotInMemory where this thread must not wait for the disk."""
        if (size := min(size, mapped.readable - position)) > 0:
            self._log.before_look(mapped, position, size)

    def _passed(self, mapped: LogFile, position: int) -> int:
        """Bytes of records from `position` on that are known."""
        if self._known is None:
            return 0
        passed = self._known.skip(mapped.view[position:], mapped.start + position, self._check_crc)
        if passed:
            self.last_store_ms = Millis(self._known.last_store_ms)
        return passed

    def _is_torn(self, view: memoryview, start: int, end: int, end_physical: PhysicalOffset) -> bool:
        """True if a power cut took the last pages of this record, and nothing lies behind it.

        Only its properties can have been there: the lengths and the body's checksum tell of all else. A property text
        that this broker writes never ends with a zero byte.
        """
        if end_physical <= self._safe_end or view[end - 1] or any(view[end : end + BLANK_BYTES]):
            return False
        return properties_block(view[start:end]).endswith(b"\0")

    def _resume(self, mapped: LogFile, position: int) -> int | None:
        """Where the next sound record, or the file's blank one, starts when the one at `position` is damaged.

        None if the log ends here.
        """
        if mapped.start + position >= self._safe_end:
            return None
        if self.damaged_from is None:
            self.damaged_from = mapped.start + position
        _log.error("the record at %d of %s is damaged or lost", mapped.start + position, mapped.path)
        for start in _record_starts(mapped.view, position + 1, partial(self._look, mapped)):
            self._look(mapped, start, 2 * _CHUNK)
            if mapped.view[start : start + BLANK_BYTES] == _BLANK.pack(mapped.size - start, MAGIC_BLANK):
                return start
            view = mapped.view[start : start + 2 * _CHUNK]
            sound, _taken, _status = scan(view, mapped.start + start, self._check_crc, self._delays_ms)
            if sound:
                return start
        return mapped.size if mapped.end < self._safe_end else None


def _record_starts(view: memoryview, position: int, look: Callable[[int, int], object]) -> Iterator[int]:
    """Positions from `position` on at which a record could start, by its magic."""
    for base in range(position + MAGIC_AT, len(view), _CHUNK):
        look(base, _CHUNK)
        block = bytes(view[base : base + _CHUNK + 3])
        found = sorted(index for magic in _MAGICS for index in _occurrences(block, magic))
        yield from (base + index - MAGIC_AT for index in found if index < _CHUNK)


def _occurrences(data: bytes, wanted: bytes) -> Iterator[int]:
    index = data.find(wanted)
    while index >= 0:
        yield index
        index = data.find(wanted, index + 1)
