"""A Parquet table: data files in partition folders that any program can read, and a log that names the live ones.

Owns        the way of a file from _rocketlake/staging to its place, the order of steps of a commit.
Must not know   how entries are kept (parquet_log.py), the order of Spark's calls.

A task writes _rocketlake/staging/NAME.pending: Spark, pandas and pyarrow skip the folder, DuckDB's globs the ending.
The driver makes the log entry, then moves the files to their places. After a crash the next writer moves the
rest before it makes the next entry: so only the newest entry can have unmoved files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.crash_point import crash_point
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.spark.lake.batch_content import BatchContent
from rocketlake.spark.lake.description import SIDECAR, TableDescription
from rocketlake.spark.lake.durable import make_folder, remove_if_there
from rocketlake.spark.lake.partition_names import Partition, partition_folder
from rocketlake.spark.lake.tables.parquet_log import Entry, FileEntry, ParquetLog, QueryHead
from rocketlake.spark.lake.tables.table import NAME, NAME_PATTERN, UNNAMED, BatchPart, Committed, DataFile

__all__ = ["ParquetTable"]

_PENDING = ".pending"
_STAGED = re.compile(NAME + re.escape(_PENDING))
_TRIES = 100
_UNNAMED_MAX = 100


class ParquetTable:
    """The table in one folder."""

    def __init__(self, path: Path, files: Files | None = None, clock: Clock | None = None) -> None:
        self.path = path
        self._files = files or PosixFiles()
        self._clock = clock or SystemClock()
        self._staging = path / SIDECAR / "staging"
        self._log = ParquetLog(path / SIDECAR / "log", self._files)
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

    def file_path(self, file: str, partition: Partition) -> Path:
        """A path in the staging folder, for every partition."""
        make_folder(self._files, self._staging)
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
            self._files.sync_dir(self._staging)  # tasks sync their files, not the names
        make_folder(self._files, self._log.folder)
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
        gone = {self.path / path for path in entry.remove}
        for path in gone:
            remove_if_there(self._files, path)
        for file in entry.add:
            self._move(file)
            crash_point("lake.mid_moves")
        for folder in sorted({self.path / Path(file.path).parent for file in entry.add} | {p.parent for p in gone}):
            if self._files.exists(folder):
                self._files.sync_dir(folder)
        for folder in {path.parent for path in gone} - {self.path}:
            self._remove_if_empty(folder)
        self._settled = entry

    def _move(self, file: FileEntry) -> None:
        target = self.path / file.path
        staged = self._staged(file)
        while self._files.exists(staged):
            make_folder(self._files, target.parent)
            try:
                self._files.rename(staged, target)
            except FileNotFoundError:
                continue  # another process moves files too, or has removed the empty folder

    def _remove_if_empty(self, folder: Path) -> None:
        try:
            self._files.remove(folder)
        except OSError:
            return  # not empty: the usual case

    def forget_files(self, part: BatchPart) -> None:
        """Delete files in staging only: a file in its place is committed."""
        for file in part.files:
            remove_if_there(self._files, self._staging / (file.name + _PENDING))

    def files(self) -> list[DataFile]:
        """From the log."""
        return [_data_file(file) for file in self._log.live_files()[1].values()]

    def read_path(self, file: DataFile) -> Path:
        """The file's place, or staging if it is not moved yet."""
        staged = self._staging / (Path(file.name).name + _PENDING)
        return staged if self._files.exists(staged) else self.path / file.name

    def history(self, limit: int) -> list[Committed]:
        """Remembered entries."""
        return [_committed(entry) for entry, _ in zip(self._log.newest_first(), range(limit), strict=False)]

    def expire(self, before_ms: int, *, dry_run: bool, progress: Callable[[str], None]) -> int:
        """Drop old entries; the files that they replaced were deleted at that time."""
        return len(self._log.forget(before_ms, dry_run=dry_run))

    def orphans(self) -> list[Path]:
        """Files in staging, and files in places that no commit names (copied in by hand under one of our names)."""
        live = {Path(path).name for path in self._log.live_files()[1]}
        staged = [self._staging / name for name in self._files.list_dir(self._staging) if _STAGED.fullmatch(name)]
        found = [path for path in staged if path.name.removesuffix(_PENDING) not in live]
        placed = (path for path in self.path.rglob("*.parquet") if SIDECAR not in path.relative_to(self.path).parts)
        return found + [path for path in placed if NAME_PATTERN.fullmatch(path.name) and path.name not in live]

    def _require(self, adds: Iterable[FileEntry]) -> None:
        for file in adds:
            staged = self._staged(file)
            if not self._files.exists(staged) or self._files.size(staged) != file.bytes:
                raise StoreError(
                    "a file that a task wrote is not there for the driver",
                    path=str(staged),
                    hint="give tasks and driver the same folder; clean it with a --grace longer than a batch",
                )

    def _staged(self, file: FileEntry) -> Path:
        return self._staging / (Path(file.path).name + _PENDING)

    def _now(self, head: Entry | None) -> int:
        return max(self._clock.now_ms(), head.ms if head else 0)

    def _beaten(self) -> StoreError:
        return StoreError(
            f"others committed to this table {_TRIES} times while this commit was tried",
            path=str(self.path),
            hint="let fewer writers write to one table, or larger batches",
        )


def _remembered(head: Entry | None) -> dict[str, QueryHead]:
    queries = dict(head.queries) if head else {}
    unnamed = sorted((known.version, query) for query, known in queries.items() if query.startswith(UNNAMED))
    for _, query in unnamed[:-_UNNAMED_MAX]:
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
