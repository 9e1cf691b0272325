"""Places of messages by key, from the key index files of a store that a broker may be writing.

Owns        the search by hash, the stretches of the log that the index does not cover.
Must not know   records: other keys may have the same hash, so callers compare the texts.

Apache drops index files after a crash, and a live broker's newest file is behind its log: `gaps` names the stretches
not covered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import File
from rocketlake.store.key_index import layout

__all__ = ["ENTRIES", "IndexFile", "KeyLookup", "index_files"]

ENTRIES = np.dtype([("hash", ">i4"), ("place", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
_CHUNK_ENTRIES = 1 << 18
_ENTRY_MAX = 0x7FFFFFFF


class IndexFile:
    """One file. `entries` is how many it holds; they count from 1."""

    def __init__(self, path: Path, slots: int) -> None:
        """Raises OSError; ValueError when it is no index file of so many slots."""
        self.path = path
        self.slots = slots
        self._file: File = PosixFiles().open(path, read_only=True)
        rest = self._file.size - layout.file_size(slots, 0)
        header = self._file.pread(layout.HEADER_SIZE, 0)
        if rest <= 0 or rest % layout.ENTRY_SIZE or len(header) < layout.HEADER_SIZE:
            self._file.close()
            raise ValueError(f"{path} is no index file of {slots} slots")
        self.begin_ms, self.end_ms, self.begin_place, self.end_place, self.used_slots, count = layout.unpack_header(
            header
        )
        self.entries = min(max(count, 1), rest // layout.ENTRY_SIZE) - 1

    def read(self, first: int, count: int) -> np.ndarray[Any, Any]:
        """Entries from number `first` on, as many as there are."""
        count = max(0, min(count, self.entries + 1 - first))
        data = self._file.pread(count * layout.ENTRY_SIZE, layout.entry_position(self.slots, first))
        return np.frombuffer(data[: len(data) // layout.ENTRY_SIZE * layout.ENTRY_SIZE], dtype=ENTRIES)

    def chain(self, hash_code: int) -> Iterator[int]:
        """Places of the entries with this hash, by the links of its slot."""
        slot = self._file.pread(layout.SLOT_SIZE, layout.slot_position(hash_code % self.slots))
        number = layout.unpack_slot(slot, 0)
        limit = self.entries + 1
        while 0 < number < limit:
            (entry,) = self.read(number, 1)
            if entry["hash"] == hash_code:
                yield int(entry["place"])
            limit, number = number, int(entry["previous"])  # links lead to lower numbers, so a chain ends

    def all_places(self, hashes: Iterable[int]) -> Iterator[int]:
        """The same by all entries, without the slots, which a running broker writes late."""
        wanted = np.array(sorted(hashes), dtype=np.int32)
        for first in range(1, self.entries + 1, _CHUNK_ENTRIES):
            found = self.read(first, _CHUNK_ENTRIES)
            yield from found["place"][np.isin(found["hash"], wanted)].tolist()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def index_files(folder: Path, slots: int) -> list[IndexFile]:
    """All files, oldest first, for the caller to close. Raises OSError, ValueError."""
    with ExitStack() as opened:
        names = (name for name in PosixFiles().list_dir(folder) if name.isascii() and name.isdigit())
        files = [opened.enter_context(closing(IndexFile(folder / name, slots))) for name in names]
        opened.pop_all()  # all files can be read: they stay open
    return files


class KeyLookup:
    """All index files of a store, open until `close`."""

    def __init__(self, folder: Path, slots: int, *, trust_slots: bool) -> None:
        """`trust_slots` if the broker has stopped in order: then all slots are written."""
        try:
            files = index_files(folder, slots)
        except (OSError, ValueError):
            files = []
        self._opened = files
        self._files = [file for file in files if file.entries]
        self._trust_slots = trust_slots

    def close(self) -> None:
        """Close all files."""
        for file in self._opened:
            file.close()

    @property
    def is_usable(self) -> bool:
        """True if there is an index that can be read."""
        return bool(self._files)

    def places(self, keys: Iterable[str]) -> frozenset[int]:
        """Places where messages with these keys ("topic#key") may lie."""
        hashes = {layout.key_hash(key) for key in keys}
        found: set[int] = set()
        for file in self._files:
            if self._trust_slots or file is not self._files[-1]:
                for hash_code in hashes:
                    found.update(file.chain(hash_code))
            else:
                found.update(file.all_places(hashes))
        return frozenset(found)

    def gaps(self, start: int, end: int) -> Iterator[tuple[int | None, int, int]]:
        """Stretches of the log whose keys the index may not have, as (record before it, from, to).

        Between two files a gap begins behind the record before, whose keys the index has; at the end with that record.
        """
        known: int | None = None
        for file in self._files:
            low = start if known is None else known
            if file.begin_place > low:
                yield known, low, min(end, file.begin_place)
            known = max(low, file.end_place)
        low = start if known is None else known
        if low < end:
            yield None, low, end
