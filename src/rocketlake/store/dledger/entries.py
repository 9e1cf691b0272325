"""The records in a log of DLedger: each stands in an entry with its index and term.

Owns        the bytes of entries, the checks of each, where the log ends.
Must not know   what becomes of the records. The files are read only.

An entry is 48 bytes of header and one record. Indexes count up by one, terms never go down, and each entry names its
own position. Damage before the end is an error: another member of the group has a sound copy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from rocketlake.base.errors import StoreError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.dispatch_scan import DispatchEntry, scan
from rocketlake.store.offset_files import OffsetFiles

__all__ = ["ANOTHER_MEMBER", "DLedgerLog", "Entry", "damaged"]

_HEADER = struct.Struct(">iiqqqiiii")
"""Magic, size of header and body, index, term, position; channel, two checksums (not used); size of the body."""
_RECORD = 1
_NO_RECORD = (2, 3)
"""Newer releases: an empty entry of a new leader, a change of members."""
_BLANK = -1
"""Fills the end of a file."""
_NOTHING = 0
ANOTHER_MEMBER = "convert the store of another member of the group"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry."""

    index: int
    term: int
    end: int
    """Position behind it."""
    body: memoryview
    record: DispatchEntry | None
    """The fields of the record that the body is; None for an entry without one."""


class DLedgerLog:
    """The log of one member."""

    def __init__(self, files: OffsetFiles, end_index: int | None) -> None:
        """`end_index`: the last index, of a clean stop. None: the log ends at its last sound entry."""
        self._files = files
        self._end_index = end_index

    def entries(self) -> Iterator[Entry]:
        """Every entry, in order. Raises StoreError for a damaged one before the end."""
        position, before = self._files.start, None
        while position < self._files.end:
            found = self._entry(position, before)
            if isinstance(found, str):
                self._check_end(position, before, found)
                return
            if found is None:  # the rest of the file is blank
                position = self._files.file_end(position)
                continue
            yield found
            before = found
            if found.index == self._end_index:
                return
            position = found.end
        self._check_end(position, before, "the files end")

    def _entry(self, position: int, before: Entry | None) -> Entry | str | None:
        """The entry at a position; None if the rest of the file is blank, a text if no sound entry is there."""
        header = self._files.read(position, _HEADER.size)
        magic = int.from_bytes(header[:4], "big", signed=True)
        if magic == _BLANK:
            return None
        if len(header) < _HEADER.size or magic == _NOTHING:
            return "nothing is written there"
        _, size, index, term, own, _, _, _, body_size = _HEADER.unpack(header)
        if magic not in (_RECORD, *_NO_RECORD) or own != position or body_size < 0 or size != _HEADER.size + body_size:
            return "no entry starts there"
        if before is not None and (index != before.index + 1 or term < before.term):
            return f"entry {index} of term {term} stands there, behind {before.index} of {before.term}"
        body = self._files.view(position + _HEADER.size, body_size)
        if len(body) != body_size:
            return f"entry {index} is cut off"
        if magic != _RECORD:
            return Entry(index, term, position + size, body, None)
        found, taken, _ = scan(body, PhysicalOffset(position + _HEADER.size), True, ())
        if len(found) != 1 or taken != body_size:
            return f"the record of entry {index} is damaged"
        return Entry(index, term, position + size, body, found[0])

    def _check_end(self, position: int, before: Entry | None, reason: str) -> None:
        """The walk cannot go on at `position`: is this the end of the log?"""
        last = before.index if before is not None else None
        if self._end_index is not None and (last if last is not None else -1) < self._end_index:
            raise damaged(self._files, position, f"{reason}, and the log ends at entry {self._end_index}")
        behind = [start for start in self._files.starts if start > position]
        if any(not self._files.is_zero_from(start) for start in behind):
            raise damaged(self._files, position, f"{reason}, and later files hold entries")


def damaged(files: OffsetFiles, position: int, reason: str) -> StoreError:
    """The error of a log that cannot be taken over."""
    return StoreError(
        f"the log is damaged: {reason}",
        path=str(files.path(position)),
        offset=position,
        hint=ANOTHER_MEMBER,
    )
