"""One key index file.

Owns        its header, slots and entries; putting a key, finding by key and time, mending after a crash.
Must not know   other files, records, when files are flushed.

Entries gather in a row that goes into the file by one write; slots follow later, many to a page (chains.py). Records
whose entries a crash takes away are dispatched again, and slots are made anew from the entries. The file is sparse:
only touched pages cost memory and disk.

Invariant: an entry's previous entry has a lower number, so a chain ends.

Bytes: docs/internals/store_layout.md, "Key index".
"""

from __future__ import annotations

from array import array
from pathlib import Path

from rocketlake.base.clock import Millis
from rocketlake.base.disk.seam import File, Files
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.disk_wait import DiskWait
from rocketlake.store.key_index.chains import NewEntries, link_entries
from rocketlake.store.key_index.layout import (
    ENTRY_SIZE,
    HEADER_SIZE,
    PAGE,
    SLOT_SIZE,
    entry_position,
    file_size,
    pack_header,
    seconds_since,
    slot_position,
    unpack_entry,
    unpack_header,
    unpack_slot,
)

__all__ = ["SLOTS_WAITING_MAX", "KeyIndexFile"]

SLOTS_WAITING_MAX = 131_072
"""Slots that gather before they are carried into the file: 27 to a page then; three megabytes."""
_NOWHERE = PhysicalOffset(-1)
_CHUNK_ENTRIES = 32_768
_CHUNK_SLOTS = 16_384
_CHUNK_BYTES = 64 * 1024


class KeyIndexFile:
    """Times are store times in epoch ms; a hash is the number of layout.key_hash."""

    def __init__(
        self,
        files: Files,
        path: Path,
        *,
        slots: int,
        entries_max: int,
        slots_waiting_max: int = SLOTS_WAITING_MAX,
        read_only: bool = False,
        wait: DiskWait | None = None,
    ) -> None:
        """Open a file, or make an empty one. Raises OSError, or StoreError for a file of another size."""
        self._wait = wait or DiskWait()
        self.path = path
        self.slots = slots
        self.entries_max = entries_max
        self.closed = False
        self._disk = files
        size = file_size(slots, entries_max)
        self.file: File = files.open(path, size=size, create=not read_only, read_only=read_only)
        self._slots_waiting_max = slots_waiting_max
        self._new: NewEntries | None = None
        self._first_new = 1  # number of the first entry in the row
        self._load_header()

    def _load_header(self) -> None:
        header = unpack_header(self.file.pread(HEADER_SIZE, 0))
        self.begin_ms, self.end_ms, self.begin_physical, self.end_physical, self.used_slots, count = header
        self.count = min(max(count, 1), self.entries_max)
        """Number of the next entry; the first is 1."""
        self._first_new = self.count
        self._opened()

    def _opened(self) -> None:
        """All that is counted now is in the file, with its slots."""
        self.opened_count = self.count
        self.was_full = self.is_full
        self.damage = ""
        """What a search found to be wrong; "" while nothing was found."""

    # -- questions -----------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """True while it has no entry."""
        return self.count <= 1

    @property
    def is_full(self) -> bool:
        """True when no entry fits any more."""
        return self.count >= self.entries_max

    def overlaps(self, begin_ms: Millis, end_ms: Millis) -> bool:
        """True if the file may hold entries stored from `begin_ms` to `end_ms`."""
        return (
            (begin_ms < self.begin_ms and end_ms > self.end_ms)
            or self.begin_ms <= begin_ms <= self.end_ms
            or self.begin_ms <= end_ms <= self.end_ms
        )

    # -- putting -------------------------------------------------------------------------------------------------------

    def follow(self, previous: KeyIndexFile) -> None:
        """Make this empty file the one behind `previous`: it starts with the end of that file."""
        self.begin_ms = self.end_ms = previous.end_ms
        self.begin_physical = self.end_physical = previous.end_physical
        self.file.pwrite(self._header(), 0)

    def put(self, hash_code: int, physical_offset: PhysicalOffset, store_ms: Millis) -> None:
        """Add one entry to a file that is not full. Raises OSError: then the entry was not added."""
        self.put_run(array("q", (hash_code, physical_offset)), 0, store_ms)

    def put_run(self, pairs: array[int], begin: int, store_ms: Millis) -> int:
        """Add entries from `pairs[begin]` on (hash, physical offset, ...) until all are in or the file is full.

        Returns where it stopped. Raises OSError: then those up to `end_physical` are in.
        """
        if self._new is None:
            self._new = NewEntries(self.slots, self.file.view(), self._held_pages(), self._slots_waiting_max)
        new = self._new
        end = min(len(pairs), begin + 2 * (self.entries_max - self.count))
        while begin < end:
            if new.step == 0:
                self._write_row()
            while new.is_late:
                self._let_slots_leave()
            # The first entry alone: its seconds count from the end of the file before. Apache's order, so our bytes.
            stop = begin + 2 if self.is_empty else min(end, begin + 2 * new.step)
            self.used_slots += new.put(pairs, begin, stop, self.count, seconds_since(self.begin_ms, store_ms))
            if self.is_empty:
                self.begin_ms, self.begin_physical = store_ms, PhysicalOffset(pairs[begin + 1])
            self.count += (stop - begin) // 2
            self.end_ms, self.end_physical = store_ms, PhysicalOffset(pairs[stop - 1])
            begin = stop
        return begin

    def head(self, slot: int) -> int:
        """Number of the newest entry of a slot, 0 if it has none."""
        if self._new is not None:
            return self._new.head(slot, self.count)
        number = unpack_slot(bytes(self._wait.pread(self.file, SLOT_SIZE, slot_position(slot))), 0)
        return number if 0 < number < self.count else 0

    def _held_pages(self) -> bytearray:
        """1 for each page of header and slots that may be looked at through a view."""
        pages = slot_position(self.slots) // PAGE + 1
        if not self.file.holes_take_space:
            return bytearray(b"\1") * pages
        held = bytearray(pages)
        for start, end in self.file.stretches():
            first, behind = start // PAGE, min(-(-end // PAGE), pages)
            held[first:behind] = b"\1" * max(0, behind - first)
        return held

    def _entry(self, number: int) -> tuple[int, PhysicalOffset, int, int]:
        """(hash, physical offset, seconds, previous) of an entry that was written out. Raises OSError."""
        data = self._wait.pread(self.file, ENTRY_SIZE, entry_position(self.slots, number))
        return unpack_entry(bytes(data).ljust(ENTRY_SIZE, b"\0"), 0)

    # -- writing out ---------------------------------------------------------------------------------------------------

    @property
    def has_waiting_slots(self) -> bool:
        """True when all entries may be in the file, but not all slots."""
        return self._new is not None and (self._new.waiting > 0 or self._new.leaves)

    def write_row(self) -> None:
        """Carry the new entries into the file, and the header. Raises OSError; it may be tried again."""
        if self._new is not None and self._new.row_count:
            self._write_row()

    def _write_row(self) -> None:
        assert self._new is not None, "there is a row"
        self.file.pwrite(self._new.row(), entry_position(self.slots, self._first_new))
        self.file.pwrite(self._header(), 0)
        self._new.row_written()
        self._first_new = self.count

    def _let_slots_leave(self) -> None:
        """One step of some ten microseconds, so that no put waits long."""
        new = self._new
        assert new is not None, "slots wait"
        if new.leaves:
            position, data = new.piece()
            self.file.pwrite(data, position)
            new.piece_written()
        else:
            self.write_row()
            new.begin_leaving()

    def write_out(self) -> None:
        """Carry all entries and slots into the file. Raises OSError; the caller may try again."""
        self.write_row()
        while self.has_waiting_slots:
            self._let_slots_leave()
        if self.is_full:
            self._new = None

    def _header(self) -> bytes:
        return pack_header(
            self.begin_ms, self.end_ms, self.begin_physical, self.end_physical, self.used_slots, self.count
        )

    # -- finding -------------------------------------------------------------------------------------------------------

    def find(
        self, hash_code: int, max_count: int, begin_ms: Millis, end_ms: Millis, *, known: PhysicalOffset = _NOWHERE
    ) -> list[PhysicalOffset]:
        """Physical offsets of up to `max_count` records with this hash and time, newest first. Raises OSError.

        `known` is the record found last in a newer file: the keys of one record may lie in two files.
        """
        self.write_row()
        found: list[PhysicalOffset] = []
        number = self.head(hash_code % self.slots)
        while number > 0 and len(found) < max_count:
            entry_hash, physical, seconds, previous = self._entry(number)
            stored_ms = self.begin_ms + seconds * 1000
            is_of_slot = entry_hash >= 0 and entry_hash % self.slots == hash_code % self.slots
            if not (is_of_slot and seconds >= 0 and 0 <= physical <= self.end_physical):
                self.damage = f"entry {number} does not belong into the chain of slot {hash_code % self.slots}"
                break
            # A record can have a key twice (as unique key, and among its keys): its entries are neighbours then.
            if entry_hash == hash_code and begin_ms <= stored_ms <= end_ms and physical != known:
                found.append(physical)
                known = physical
            if stored_ms < begin_ms:
                break
            if not 0 <= previous < number:
                self.damage = f"the link of entry {number} leads to {previous}"
                break
            number = previous
        return found

    def last_hashes(self) -> set[int]:
        """The hashes of the newest record's entries. Raises OSError."""
        self.write_row()
        hashes: set[int] = set()
        for number in range(self.count - 1, 0, -1):
            hash_code, physical, _seconds, _previous = self._entry(number)
            if physical != self.end_physical:
                break
            hashes.add(hash_code)
        return hashes

    def entries(self) -> list[tuple[int, PhysicalOffset, int, int]]:
        """All entries: (hash, physical offset, seconds, previous), for the audit."""
        self.write_row()
        return [self._entry(number) for number in range(1, self.count)]

    # -- mending -------------------------------------------------------------------------------------------------------

    def mend(self, end_physical: PhysicalOffset) -> None:
        """Keep the entries that hold together and lie below `end_physical`, with right links, slots and header.

        After a crash any page of the file may be older than its neighbours; entries alone tell the truth. What lies
        behind the last entry becomes zero, for good: after another power cut it could stand where the file's count says
        that an entry is, one of a record that the log has lost since. Raises OSError.
        """
        self.write_out()
        self._new = None
        heads = array("i", [0]) * self.slots
        number, last, seconds, used_slots = 1, self.begin_physical, 0, 0
        while number < self.count:
            wanted = min(_CHUNK_ENTRIES, self.count - number)
            position = entry_position(self.slots, number)
            chunk = self.file.pread(wanted * ENTRY_SIZE, position)
            sound, last, seconds, used, linked = link_entries(chunk, number, last, end_physical, heads)
            if linked:
                self.file.pwrite(linked, position)
            used_slots += used
            number += sound
            if sound < wanted:
                break
        cut = number < self.count
        self.count = self._first_new = number
        self.used_slots = used_slots
        if cut:
            self.end_physical = last
            self.end_ms = self.begin_ms + seconds * 1000
        self._write_heads(heads)
        self.file.pwrite(self._header(), 0)
        self._opened()
        if self._clear_from(entry_position(self.slots, number)) or cut:
            self.file.sync()

    def _clear_from(self, position: int) -> bool:
        """Write zeros over all that lies behind; False when there was nothing."""
        cleared = False
        for start, end in self.file.stretches():
            for at in range(max(start, position), end, _CHUNK_BYTES):
                length = min(_CHUNK_BYTES, end - at)
                if self.file.pread(length, at).strip(b"\0"):
                    self.file.pwrite(bytes(length), at)
                    cleared = True
        return cleared

    def _write_heads(self, heads: array[int]) -> None:
        """Write the slots that differ; most of a sparse file stays untouched."""
        for first in range(0, self.slots, _CHUNK_SLOTS):
            chunk = heads[first : first + _CHUNK_SLOTS]
            chunk.byteswap()  # slots are big-endian
            wanted = chunk.tobytes()
            position = slot_position(first)
            if self.file.pread(len(wanted), position) != wanted:
                self.file.pwrite(wanted, position)

    # -- end -----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close. Entries that were put and not written out are lost."""
        self.closed = True
        self._new = None
        self.file.close()

    def remove(self) -> None:
        """Close and delete the file. Blocking; may run on a worker. Raises OSError."""
        self.close()
        self._disk.remove(self.path)
