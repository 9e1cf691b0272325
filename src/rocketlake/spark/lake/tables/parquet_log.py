"""The log of a Parquet table: numbered entries, each made by the first of its writers.

Owns        entries as JSON files, finding the newest, snapshots of the live files, forgetting old entries.
Must not know   data files: parquet_table.py moves and deletes the files that an entry names.

    log/00000000000000000042.json             entry 42, made by put-if-absent, never changed
    log/snapshot-00000000000000000042.json    all live files as of entry 42, so that older entries are not needed
    log/head                                  number of a recent entry: a hint where to look first (on a disk)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

import msgspec

from rocketlake.base.errors import StoreError
from rocketlake.spark.lake.offset_ranges import OffsetRanges
from rocketlake.spark.places.place import Place

__all__ = ["Entry", "FileEntry", "ParquetLog", "QueryHead"]

_SNAPSHOT_EVERY = 64
_TRIES = 5
_ENTRY = re.compile(r"(\d{20})\.json")
_SNAPSHOT = re.compile(r"snapshot-(\d{20})\.json")


class FileEntry(msgspec.Struct, frozen=True):
    """A data file: its path under the table's folder."""

    path: str
    partition: list[tuple[str, str | None]]
    rows: int
    bytes: int


class QueryHead(msgspec.Struct, frozen=True):
    """The newest batch of a query, and the entry that brought it."""

    batch: int
    version: int


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One commit. `queries`, `rows` and `bytes` describe the table after it, so that the newest entry is enough."""

    version: int
    writer: str = ""
    """Of this entry alone: no two writers make the same bytes, so a lost answer is found out by reading back."""
    ms: int
    operation: str
    query: str = ""
    batch: int = -1
    attempts: list[str] = []
    offsets: OffsetRanges = {}
    bad_rows: int = 0
    content: str = ""
    schema: int
    add: list[FileEntry] = []
    remove: list[str] = []
    queries: dict[str, QueryHead] = {}
    rows: int
    bytes: int


class ParquetLog:
    """The entries in one folder. Raises StoreError for an entry that cannot be read."""

    def __init__(self, folder: PurePath, place: Place) -> None:
        self.folder = folder
        self._place = place
        self._hint = 0

    def head(self) -> Entry | None:
        """The newest entry."""
        version = self._start()
        while self._is_there(version + 1):
            version += 1
        self._hint = version
        return self.entry(version) if version else None

    def _start(self) -> int:
        if self._hint and self._is_there(self._hint):
            return self._hint
        if self._place.files is not None:
            text = self._place.get(self.folder / "head") or b""
            if text.isdigit() and self._is_there(int(text)):
                return int(text)
        return max(self._versions(_ENTRY), default=0)

    def _is_there(self, version: int) -> bool:
        return self._place.sizes([self._path(version)]) != [None]

    def entry(self, version: int) -> Entry | None:
        """An entry; None if it is not made yet, or was dropped."""
        path = self._path(version)
        text = self._place.get(path)
        if text is None:
            return None
        try:
            entry = msgspec.json.decode(text, type=Entry)
        except msgspec.DecodeError as error:
            raise _broken(path, error) from error
        for place in (*(file.path for file in entry.add), *entry.remove):
            # Files are moved and deleted by these names: none may lead out of the table.
            if place.startswith("/") or not {"", ".", ".."}.isdisjoint(place.split("/")):
                raise _broken(path, ValueError(f"'{place}' is no path inside the table"))
        return entry

    def append(self, entry: Entry) -> bool:
        """Make this entry; False if its number is taken. On return it is safe."""
        if not self._place.put_if_absent(self._path(entry.version), msgspec.json.encode(entry)):
            return False
        if entry.version > 1 and not self._is_there(entry.version - 1):
            # The writer slept while others made entries and dropped old ones: its number was free again.
            self._place.delete([self._path(entry.version)])
            return False
        self._hint = entry.version
        if self._place.files is not None:  # a store lists in one call
            self._place.put(self.folder / "head", b"%d" % entry.version, hint=True)
        if entry.version % _SNAPSHOT_EVERY == 0:
            self.take_snapshot(entry.version)
        return True

    def live_files(self) -> tuple[int, dict[str, FileEntry]]:
        """The newest version and its files by path."""
        for _ in range(_TRIES):
            head = self.head()
            if head is None:
                return 0, {}
            found = self._files_at(head.version)
            if found is not None:
                return head.version, found
        raise StoreError(
            "the log of this table cannot be followed from its newest snapshot",
            path=str(self.folder),
            hint="restore the folder from a copy: an entry is missing, which somebody may have deleted by hand",
        )

    def _files_at(self, version: int) -> dict[str, FileEntry] | None:
        start = max((number for number in self._versions(_SNAPSHOT) if number <= version), default=0)
        found: dict[str, FileEntry] = {}
        if start:
            text = self._place.get(self._snapshot_path(start))
            if text is None:
                return None
            try:
                found = {file.path: file for file in msgspec.json.decode(text, type=list[FileEntry])}
            except msgspec.DecodeError as error:
                raise _broken(self._snapshot_path(start), error) from error
        for number in range(start + 1, version + 1):
            entry = self.entry(number)
            if entry is None:
                return None  # dropped meanwhile; there is a newer snapshot then
            for path in entry.remove:
                found.pop(path, None)
            found |= {file.path: file for file in entry.add}
        return found

    def newest_first(self) -> Iterator[Entry]:
        """Remembered entries."""
        head = self.head()
        version = head.version if head else 0
        while version > 0 and (entry := self.entry(version)) is not None:
            yield entry
            version -= 1

    def take_snapshot(self, version: int) -> None:
        """Write down all live files as of this entry."""
        found = self._files_at(version)
        if found is not None:
            self._place.put(self._snapshot_path(version), msgspec.json.encode(list(found.values())))

    def forget(self, before_ms: int, *, dry_run: bool) -> list[Entry]:
        """Drop entries older than this, oldest first; the newest one always stays. Returns the dropped entries."""
        head = self.head()
        old = [e for v in sorted(self._versions(_ENTRY)) if (e := self.entry(v)) is not None and e.ms < before_ms]
        old = [entry for entry in old if head is not None and entry.version < head.version]
        if dry_run or not old or head is None:
            return old
        self.take_snapshot(head.version)
        self._place.delete(self._snapshot_path(number) for number in self._versions(_SNAPSHOT) if number < head.version)
        self._place.delete(self._path(entry.version) for entry in old)
        return old

    def _versions(self, pattern: re.Pattern[str]) -> list[int]:
        names = (pattern.fullmatch(name) for name in self._place.names(self.folder))
        return [int(match[1]) for match in names if match]

    def _path(self, version: int) -> PurePath:
        return self.folder / f"{version:020d}.json"

    def _snapshot_path(self, version: int) -> PurePath:
        return self.folder / f"snapshot-{version:020d}.json"


def _broken(path: PurePath, error: Exception) -> StoreError:
    return StoreError(
        f"this is not what RocketLake wrote: {error}", path=str(path), hint="restore the file from a copy of the table"
    )
