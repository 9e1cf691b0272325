"""The records in a log of DLedger: each stands in an entry with its index and term.

Owns        the bytes of entries, the checks of each, where the log ends.
Must not know   what becomes of the records. The files are read only.

An entry is 48 bytes of header and one record. Indexes count up by one, terms never go down, and each entry names its
own position. Damage before the end is an error: another member of the group has a sound copy. A log that a kill has cut
off shows no end, so the walk ends at the first unsound entry only if nothing is lost by that: the member noted no later
entry as committed, and no later entry is sound.
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
_MAGIC_BYTES = _RECORD.to_bytes(4, "big")
_CHUNK_BYTES = 4 * 1024 * 1024
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

    def __init__(
        self, files: OffsetFiles, end_index: int | None, *, committed_index: int = -1, given_up_from: int | None = None
    ) -> None:
        """`end_index`: the last index, of a clean stop. None: the log ends at its last sound entry.

        `committed_index`: as the member noted it. `given_up_from`: entries from this index on are not read at all.
        """
        self._files = files
        self._end_index = end_index
        self._committed_index = committed_index
        self._given_up_from = given_up_from

    def entries(self) -> Iterator[Entry]:
        """Every entry, in order. Raises StoreError for a damaged one before the end."""
        position, before = self._files.start, None
        while position < self._files.end:
            if before is not None and before.index + 1 == self._given_up_from:
                return
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
        last = before.index if before is not None else -1
        if self._end_index is not None and last < self._end_index:
            raise damaged(self._files, position, f"{reason}, and the log ends at entry {self._end_index}", last)
        if last < self._committed_index:
            raise damaged(
                self._files, position, f"{reason}, and entries up to {self._committed_index} are committed", last
            )
        behind = [start for start in self._files.starts if start > position]
        if any(not self._files.is_zero_from(start) for start in behind):
            raise damaged(self._files, position, f"{reason}, and later files hold entries", last)
        if self._end_index is None and (later := self._later(position, before)) is not None:
            raise damaged(self._files, position, f"{reason}, and entry {later.index} behind it is sound", last)

    def _later(self, position: int, before: Entry | None) -> Entry | None:
        """A sound entry behind `position`, in its file, that can follow `before`.

        One of an older term cannot: it was given up, and overwritten in part.
        """
        end = self._files.file_end(position)
        while position < end and not self._files.is_zero_from(position):
            chunk = self._files.read(position, min(_CHUNK_BYTES, end - position))
            at = chunk.find(_MAGIC_BYTES)
            while at >= 0:
                found = self._entry(position + at, None)
                if isinstance(found, Entry) and (
                    before is None or (found.index > before.index and found.term >= before.term)
                ):
                    return found
                at = chunk.find(_MAGIC_BYTES, at + 1)
            position += max(1, len(chunk) - len(_MAGIC_BYTES) + 1)
        return None


def damaged(files: OffsetFiles, position: int, reason: str, last: int = -1) -> StoreError:
    """The error of a log that cannot be taken over. `last`: the last sound entry before, -1 if there is none."""
    give_up = f"; if none is left, give up entry {last + 1} and all behind it with --give-up-from {last + 1}"
    return StoreError(
        f"the log is damaged: {reason}",
        path=str(files.path(position)),
        offset=position,
        hint=ANOTHER_MEMBER + (give_up if last >= 0 else ""),
    )
