"""A Parquet table: data files in partition folders that any program can read, and a log that names the live ones.

Owns        the way of a file from _rocketlake/staging to its place, the order of steps of a commit.
Must not know   how entries are kept (parquet_log.py), the order of Spark's calls.

A task writes _rocketlake/staging/NAME.pending: Spark, pandas and pyarrow skip the folder, DuckDB's globs the ending.
The driver makes the log entry, then moves the files to their places. After a crash the next writer moves the
rest before it makes the next entry: so only the newest entry can have unmoved files. An object store cannot move: there
files stay where tasks wrote them, and readers take their names from the log (`rocketlake lake files`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from uuid import uuid4

from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.crash_point import crash_point
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.spark.lake.batch_content import BatchContent
from rocketlake.spark.lake.description import SIDECAR, TableDescription
from rocketlake.spark.lake.partition_names import Partition, partition_folder
from rocketlake.spark.lake.tables.parquet_log import Entry, FileEntry, ParquetLog, QueryHead
from rocketlake.spark.lake.tables.table import (
    NAME,
    NAME_PATTERN,
    UNNAMED,
    UNNAMED_MAX,
    BatchPart,
    Committed,
    DataFile,
)
from rocketlake.spark.places.location import Location, place_of
from rocketlake.spark.places.place import Place

__all__ = ["ParquetTable"]

_PENDING = ".pending"
_STAGED = re.compile(NAME + re.escape(_PENDING))
_TRIES = 100
_LATE_MS_MAX = 86_400_000


class ParquetTable:
    """The table in one folder."""

    def __init__(
        self, where: PurePath | Location | Place, files: Files | None = None, clock: Clock | None = None
    ) -> None:
        self.place: Place = place_of(where, files)
        self._clock = clock or SystemClock()
        self._staging = self.place.path / SIDECAR / "staging"
        self._log = ParquetLog(self.place.path / SIDECAR / "log", self.place)
        self._settled: Entry | None = None

    def last_batch(self, query: str) -> int | None:
        """From the newest entry."""
        head = self._log.head()
        known = head.queries.get(query) if head else None
        return known.batch if known else None

    def find(self, query: str, batch: int) -> Committed | None:
        """The entry of a batch: at once if it is the newest of its query, else by a walk back."""
        head = self._log.head()
        known = head.queries.get(query) if head else None
        if known is None or batch > known.batch:
            return None
        if batch == known.batch:
            entry = self._log.entry(known.version)
            return _committed(entry) if entry else None
        entries = self._log.newest_first()
        return next((_committed(entry) for entry in entries if (entry.query, entry.batch) == (query, batch)), None)

    def file_path(self, file: str, partition: Partition) -> PurePath:
        """A path in the staging folder, for every partition."""
        self.place.make_folder(self._staging)
        return self._staging / (file + _PENDING)

    def append(self, part: BatchPart, description: TableDescription) -> bool:
        """Make the entry, then move the files."""
        adds = [_file_entry(file) for file in part.files]
        for _ in range(_TRIES):
            head = self._log.head()
            known = head.queries.get(part.query) if head else None
            if known is not None and known.batch >= part.batch:
                self._settle(head)
                return False
            self._require(adds)
            number = head.version + 1 if head else 1
            if self._try(
                head,
                Entry(
                    version=number,
                    writer=uuid4().hex,
                    ms=self._now(head),
                    operation="append",
                    query=part.query,
                    batch=part.batch,
                    attempts=list(part.attempts),
                    offsets=part.offsets,
                    bad_rows=part.bad_rows,
                    content=part.content.to_text(),
                    schema=description.version,
                    add=adds,
                    queries=_remembered(head) | {part.query: QueryHead(part.batch, number)},
                    rows=(head.rows if head else 0) + sum(file.rows for file in adds),
                    bytes=(head.bytes if head else 0) + sum(file.bytes for file in adds),
                ),
            ):
                return True
        raise self._beaten()

    def exchange(
        self, olds: Sequence[DataFile], news: Sequence[DataFile], description: TableDescription, operation: str
    ) -> bool:
        """Make the entry, then delete old files and move new ones: in between a reader sees fewer rows, never more."""
        adds = [_file_entry(file) for file in news]
        for _ in range(_TRIES):
            head = self._log.head()
            version, live = self._log.live_files()
            if head is None or any(old.name not in live for old in olds):
                return False
            if head.version != version:
                continue
            self._require(adds)
            entry = Entry(
                version=version + 1,
                writer=uuid4().hex,
                ms=self._now(head),
                operation=operation,
                schema=max(description.version, head.schema),
                add=adds,
                remove=[old.name for old in olds],
                queries=head.queries,
                rows=head.rows + sum(file.rows for file in adds) - sum(old.rows for old in olds),
                bytes=head.bytes + sum(file.bytes for file in adds) - sum(old.bytes for old in olds),
            )
            if self._try(head, entry):
                return True
        raise self._beaten()

    def _try(self, head: Entry | None, entry: Entry) -> bool:
        self._settle(head)
        if entry.add:
            self.place.keep_names([self._staging])
        if not self._log.append(entry):
            return False
        crash_point("lake.after_entry")
        self._settle(entry)
        return True

    def recover(self) -> None:
        """Move files of the newest entry that a dead writer left in staging."""
        self._settle(self._log.head())

    def _settle(self, entry: Entry | None) -> None:
        # Each process syncs the folders once, even if it moves no file: a writer may be killed between move and sync.
        if entry is None or entry == self._settled:
            return
        if self.place.files is None:
            self.place.delete(self._staged(path) for path in entry.remove)
        else:
            self._move_all(entry, self.place.files)
        self._settled = entry

    def _move_all(self, entry: Entry, files: Files) -> None:
        root = Path(self.place.path)
        gone = {root / path for path in entry.remove}
        self.place.delete(gone)
        for file in entry.add:
            self._move(Path(self._staged(file.path)), root / file.path, files)
            crash_point("lake.mid_moves")
        for folder in sorted({(root / file.path).parent for file in entry.add} | {path.parent for path in gone}):
            if files.exists(folder):
                files.sync_dir(folder)
        for folder in {path.parent for path in gone} - {root}:
            with suppress(OSError):  # not empty: the usual case
                files.remove(folder)

    def _move(self, staged: Path, target: Path, files: Files) -> None:
        while files.exists(staged):
            self.place.make_folder(target.parent)
            try:
                files.rename(staged, target)
            except FileNotFoundError:
                continue  # another process moves files too, or has removed the empty folder

    def forget_files(self, part: BatchPart) -> None:
        """Delete files in staging only: a file in its place is committed."""
        self.place.delete(self._staged(file.name) for file in part.files)

    def files(self) -> list[DataFile]:
        """From the log."""
        return [_data_file(file) for file in self._log.live_files()[1].values()]

    def read_path(self, file: DataFile) -> PurePath:
        """The file's place, or staging if it is not moved yet."""
        staged = self._staged(file.name)
        is_staged = self.place.files is None or self.place.files.exists(Path(staged))
        return staged if is_staged else self.place.path / file.name

    def history(self, limit: int) -> list[Committed]:
        """Remembered entries."""
        return [_committed(entry) for entry, _ in zip(self._log.newest_first(), range(limit), strict=False)]

    def expire(self, before_ms: int, *, dry_run: bool, progress: Callable[[str], None]) -> int:
        """Drop old entries; the files that they replaced were deleted at that time."""
        if self.place.files is None:
            # A put that the store makes late must not find its number free.
            before_ms = min(before_ms, self._clock.now_ms() - _LATE_MS_MAX)
        return len(self._log.forget(before_ms, dry_run=dry_run))

    def orphans(self) -> list[PurePath]:
        """Files in staging, and files in places that no commit names (copied in by hand under one of our names)."""
        live = {Path(path).name for path in self._log.live_files()[1]}
        staged = [self._staging / name for name in self.place.names(self._staging) if _STAGED.fullmatch(name)]
        found = [path for path in staged if path.name.removesuffix(_PENDING) not in live]
        root = self.place.path
        placed = (path for path in self.place.walk(".parquet") if SIDECAR not in path.relative_to(root).parts)
        return found + [path for path in placed if NAME_PATTERN.fullmatch(path.name) and path.name not in live]

    def _require(self, adds: Iterable[FileEntry]) -> None:
        adds = list(adds)
        paths = [self._staged(file.path) for file in adds]
        for path, file, size in zip(paths, adds, self.place.sizes(paths), strict=True):
            if size != file.bytes:
                raise StoreError(
                    "a file that a task wrote is not there for the driver",
                    path=self.place.url(path),
                    hint="give tasks and driver the same folder; clean it with a --grace longer than a batch",
                )

    def _staged(self, file: str) -> PurePath:
        return self._staging / (file.rpartition("/")[2] + _PENDING)

    def _now(self, head: Entry | None) -> int:
        return max(self._clock.now_ms(), head.ms if head else 0)

    def _beaten(self) -> StoreError:
        return StoreError(
            f"others committed to this table {_TRIES} times while this commit was tried",
            path=self.place.url(),
            hint="let fewer writers write to one table, or larger batches",
        )


def _remembered(head: Entry | None) -> dict[str, QueryHead]:
    queries = dict(head.queries) if head else {}
    unnamed = sorted((known.version, query) for query, known in queries.items() if query.startswith(UNNAMED))
    for _, query in unnamed[:-UNNAMED_MAX]:
        del queries[query]
    return queries


def _file_entry(file: DataFile) -> FileEntry:
    return FileEntry(_place(file.name, file.partition), list(file.partition), file.rows, file.bytes)


def _place(name: str, partition: Partition) -> str:
    return str(partition_folder(partition) / name)


def _partition(file: FileEntry) -> Partition:
    return tuple((name, value) for name, value in file.partition)


def _data_file(file: FileEntry) -> DataFile:
    partition = _partition(file)
    misnamed = file.path != _place(Path(file.path).name, partition)
    return DataFile(file.path, partition, file.rows, file.bytes, misnamed)


def _committed(entry: Entry) -> Committed:
    return Committed(
        entry.version,
        entry.ms,
        entry.operation,
        entry.query,
        entry.batch,
        tuple(entry.attempts),
        entry.offsets,
        sum(file.rows for file in entry.add),
        len(entry.add),
        entry.bad_rows,
        BatchContent.from_text(entry.content),
    )
