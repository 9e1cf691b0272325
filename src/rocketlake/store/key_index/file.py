"""One key index file.

Owns        its header, slots and entries; putting a key, finding by key and time, mending after a crash.
Must not know   other files, records, when it is flushed.

Entries are kept in memory until `write_out`: a row of them goes into the file by one write. What a crash takes away
is dispatched again from the checkpoint. The file is sparse: only touched pages cost memory and disk.

Invariant: an entry's previous entry has a lower number, so a chain ends.

Bytes: docs/internals/store_layout.md, "Key index".
"""

from __future__ import annotations

from array import array
from pathlib import Path

from rocketlake.base.files import File, Files
from rocketlake.store.key_index.layout import (
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    entry_position,
    file_size,
    link_entries,
    pack_entry,
    pack_header,
    pack_slot,
    seconds_since,
    slot_position,
    unpack_entry,
    unpack_header,
    unpack_slot,
)

__all__ = ["KeyIndexFile"]

_PENDING_MAX = 1024
_CHUNK_ENTRIES = 32_768
_CHUNK_SLOTS = 16_384


class KeyIndexFile:
    """Times are store times in epoch ms; a hash is the number of layout.key_hash."""

    def __init__(self, files: Files, path: Path, *, slots: int, entries_max: int, read_only: bool = False) -> None:
        """Open a file, or make an empty one. Raises OSError, or StoreError for a file of another size."""
        self.path = path
        self.slots = slots
        self.entries_max = entries_max
        self._disk = files
        size = file_size(slots, entries_max)
        self.file: File = files.open(path, size=size, create=not read_only, read_only=read_only)
        self._view: memoryview | None = None
        self._new_slots: dict[int, int] = {}
        self._new_entries = bytearray()
        self._first_new = 1  # number of the first entry in _new_entries
        self._load_header()

    def _load_header(self) -> None:
        header = unpack_header(self.file.pread(HEADER_SIZE, 0))
        self.begin_ms, self.end_ms, self.begin_physical, self.end_physical, self.used_slots, count = header
        self.count = min(max(count, 1), self.entries_max)
        """Number of the next entry; the first is 1."""
        self._first_new = self.count

    # -- questions -----------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """True while it has no entry."""
        return self.count <= 1

    @property
    def is_full(self) -> bool:
        """True when no entry fits any more."""
        return self.count >= self.entries_max

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """May it hold entries stored from `begin_ms` to `end_ms`?"""
        return (
            (begin_ms < self.begin_ms and end_ms > self.end_ms)
            or self.begin_ms <= begin_ms <= self.end_ms
            or self.begin_ms <= end_ms <= self.end_ms
        )

    # -- putting -------------------------------------------------------------------------------------------------------

    def follow(self, previous: KeyIndexFile) -> None:
        """Be the file behind `previous`: an empty file starts with the end of the one before."""
        self.begin_ms = self.end_ms = previous.end_ms
        self.begin_physical = self.end_physical = previous.end_physical
        self.file.pwrite(self._header(), 0)

    def put(self, hash_code: int, physical_offset: int, store_ms: int) -> None:
        """Add one entry to a file that is not full. Raises OSError: then the entry was not added."""
        if len(self._new_slots) >= _PENDING_MAX:
            self.write_out()
        slot = hash_code % self.slots
        previous = self.head(slot)
        seconds = seconds_since(self.begin_ms, store_ms)
        self._new_entries += pack_entry(hash_code, physical_offset, seconds, previous)
        self._new_slots[slot] = self.count
        if self.is_empty:
            # After its seconds were counted from the end of the file before: Apache's order, so our bytes.
            self.begin_ms, self.begin_physical = store_ms, physical_offset
        if previous == 0:
            self.used_slots += 1
        self.count += 1
        self.end_ms, self.end_physical = store_ms, physical_offset

    def head(self, slot: int) -> int:
        """Number of the newest entry of a slot, 0 if it has none."""
        new = self._new_slots.get(slot)
        if new is not None:
            return new
        number = unpack_slot(self._mapping(), slot_position(slot))
        return number if 0 < number < self.count else 0

    def _mapping(self) -> memoryview:
        if self._view is None:
            self._view = self.file.view()
        return self._view

    def write_out(self) -> None:
        """Carry what was put into the file, the header last. Raises OSError; it may be tried again."""
        if not self._new_entries:
            return
        self.file.pwrite(self._new_entries, entry_position(self.slots, self._first_new))
        for slot, number in self._new_slots.items():
            self.file.pwrite(pack_slot(number), slot_position(slot))
        self.file.pwrite(self._header(), 0)
        self._new_entries = bytearray()
        self._new_slots.clear()
        self._first_new = self.count

    def _header(self) -> bytes:
        return pack_header(
            self.begin_ms, self.end_ms, self.begin_physical, self.end_physical, self.used_slots, self.count
        )

    # -- finding -------------------------------------------------------------------------------------------------------

    def find(self, hash_code: int, max_count: int, begin_ms: int, end_ms: int, *, known: int = -1) -> list[int]:
        """Physical offsets of up to `max_count` records with this hash and time, newest first. Raises OSError.

        `known` is the record found last in a newer file: the keys of one record may lie in two files.
        """
        self.write_out()
        view = self._mapping()
        found: list[int] = []
        number = self.head(hash_code % self.slots)
        while number > 0 and len(found) < max_count:
            entry_hash, physical, seconds, previous = unpack_entry(view, entry_position(self.slots, number))
            stored_ms = self.begin_ms + seconds * 1000
            if seconds < 0:
                break
            # A record can have a key twice (as unique key, and among its keys): its entries are neighbours then.
            if entry_hash == hash_code and begin_ms <= stored_ms <= end_ms and physical != known:
                found.append(physical)
                known = physical
            if stored_ms < begin_ms or previous >= number:
                break
            number = previous
        return found

    def last_hashes(self) -> set[int]:
        """The hashes of the newest record's entries. Raises OSError."""
        self.write_out()
        view = self._mapping()
        hashes: set[int] = set()
        for number in range(self.count - 1, 0, -1):
            hash_code, physical, _seconds, _previous = unpack_entry(view, entry_position(self.slots, number))
            if physical != self.end_physical:
                break
            hashes.add(hash_code)
        return hashes

    def entries(self) -> list[tuple[int, int, int, int]]:
        """All entries: (hash, physical offset, seconds, previous), for the audit."""
        self.write_out()
        view = self._mapping()
        return [unpack_entry(view, entry_position(self.slots, number)) for number in range(1, self.count)]

    # -- mending -------------------------------------------------------------------------------------------------------

    def mend(self, end_physical: int) -> None:
        """Keep the entries that hold together and lie below `end_physical`, with right links, slots and header.

        After a crash any page of the file may be older than its neighbours; entries alone tell the truth.
        Raises OSError.
        """
        self.write_out()
        heads = array("i", bytes(SLOT_SIZE * self.slots))
        number, last, seconds = 1, self.begin_physical, 0
        while number < self.count:
            wanted = min(_CHUNK_ENTRIES, self.count - number)
            position = entry_position(self.slots, number)
            chunk = self.file.pread(wanted * ENTRY_SIZE, position)
            sound, last, seconds, linked = link_entries(chunk, number, last, end_physical, heads)
            if linked != chunk[: len(linked)]:
                self.file.pwrite(linked, position)
            number += sound
            if sound < wanted:
                break
        cut = number < self.count
        self.count = self._first_new = number
        self.used_slots = len(heads) - heads.count(0)
        if cut:
            self.end_physical = last
            self.end_ms = self.begin_ms + seconds * 1000
        self._write_heads(heads)
        self.file.pwrite(self._header(), 0)

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
        """Close; what was put but not written out is lost."""
        self._view = None
        self.file.close()

    def remove(self) -> None:
        """Close and delete the file. Blocking; may run on a worker. Raises OSError."""
        self.close()
        self._disk.remove(self.path)
