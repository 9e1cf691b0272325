"""Maintenance of a table beside a running stream: fewer files, fewer old rows, no orphans.

Owns        the choice of files to rewrite together, of partitions that are too old, of files that no commit names.
Must not know   formats: each change is one commit of the table; one that loses against a stream is left out.
"""

from __future__ import annotations

import datetime
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from uuid import uuid4

import pyarrow as pa

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.spark.lake.description import SIDECAR, Descriptions, TableDescription
from rocketlake.spark.lake.file_writer import PartitionWriter
from rocketlake.spark.lake.partition_names import Partition
from rocketlake.spark.lake.reader import read_file
from rocketlake.spark.lake.table_schema import STORE_DAY, arrow
from rocketlake.spark.lake.tables.open_table import open_table
from rocketlake.spark.lake.tables.table import NAME, DataFile, LakeTable, data_file_name
from rocketlake.spark.places.location import Location, place_of
from rocketlake.spark.places.place import Place, Writing

__all__ = ["Compacted", "Rewrite", "clean", "compact", "drop_days_before", "open_described", "plan_compaction"]

Progress = Callable[[str], None]
Where = PurePath | Location | Place

_COMPACTOR = "compact-"
_ORPHAN = re.compile(NAME + r"(\.pending)?")
_FULL_PART = 0.75
"""A file of this part of the target size is left alone: rewriting it would gain nothing."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files of one partition that are rewritten as one."""

    partition: Partition
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class Compacted:
    """The numbers of a compaction."""

    rewrites: int
    files_before: int
    files_after: int
    lost_races: int
    median_bytes: int


def open_described(where: Where) -> tuple[LakeTable, TableDescription]:
    """A table and its description. UsageError if there is no table."""
    place = place_of(where)
    description = Descriptions(place).latest()
    if description is None:
        raise UsageError(
            f"there is no lake table at {place.url()}", hint="give the folder that the stream was given as 'path'"
        )
    return open_table(place, description.table_format), description


def plan_compaction(files: Sequence[DataFile], target_bytes: int) -> Iterator[Rewrite]:
    """Small and misnamed files of a partition, put together up to the target size."""
    by_partition: dict[Partition, list[DataFile]] = {}
    for file in files:
        if file.misnamed or file.bytes < target_bytes * _FULL_PART:
            by_partition.setdefault(file.partition, []).append(file)
    for partition, small in sorted(by_partition.items(), key=lambda item: str(item[0])):
        group: list[DataFile] = []
        for file in sorted(small, key=lambda file: file.name):
            if group and sum(each.bytes for each in group) + file.bytes > target_bytes:
                if len(group) > 1 or group[0].misnamed:
                    yield Rewrite(partition, tuple(group))
                group = []
            group.append(file)
        if len(group) > 1 or group[0].misnamed:
            yield Rewrite(partition, tuple(group))


def compact(where: Where, target_bytes: int, *, dry_run: bool, progress: Progress) -> Compacted:
    """Rewrite small files; each rewrite is a commit of its own. A dry run only counts."""
    table, _ = open_described(where)
    if not dry_run:
        table.recover()
    before = table.files()
    # Read after the files: a column is described before the first file that has it is committed.
    description = open_described(where)[1]
    # The files of a table that is kept up to date by key are as large as its buckets.
    plan = [] if description.merge else list(plan_compaction(before, target_bytes))
    for rewrite in plan if dry_run else ():
        _say(progress, rewrite)
    if dry_run:
        sizes = _planned_sizes(before, plan)
        return Compacted(len(plan), len(before), len(sizes), 0, _median(sizes))
    done = lost = 0
    for rewrite in plan:
        _say(progress, rewrite)
        if _rewrite(table, description, rewrite):
            done += 1
        else:
            lost += 1
            progress(f"{_named(rewrite.partition)}: changed meanwhile, left as it is")
    after = table.files()
    return Compacted(done, len(before), len(after), lost, _median([file.bytes for file in after]))


def _say(progress: Progress, rewrite: Rewrite) -> None:
    progress(f"{_named(rewrite.partition)}: {len(rewrite.files)} files, {_mb(rewrite.files)} MB -> 1")


def _planned_sizes(files: Sequence[DataFile], plan: Sequence[Rewrite]) -> list[int]:
    """Bytes of each file after the compaction."""
    old = {file for rewrite in plan for file in rewrite.files}
    kept = [file.bytes for file in files if file not in old]
    return kept + [sum(file.bytes for file in rewrite.files) for rewrite in plan]


def _median(sizes: Sequence[int]) -> int:
    return int(statistics.median(sizes)) if sizes else 0


def _rewrite(table: LakeTable, description: TableDescription, rewrite: Rewrite) -> bool:
    whole = arrow(description.schema)
    left_out = () if description.table_format == "iceberg" else description.partition_by
    schema = pa.schema([field for field in whole if field.name not in left_out])
    attempt = uuid4().hex
    paths: list[PurePath] = []

    def begin() -> tuple[str, Writing]:
        name = data_file_name(_COMPACTOR + attempt, 0, attempt, len(paths))
        paths.append(table.file_path(name, rewrite.partition))
        return name, table.place.writer(paths[-1])

    writer = PartitionWriter(rewrite.partition, schema, begin, "zstd", 1 << 62)
    try:
        for file in rewrite.files:
            for batch in _read(table, file, whole):
                writer.add(batch.select(schema.names))
        new = writer.close()
        _check_rows(table.place.url(), rewrite, new)
    except Exception as error:
        writer.abort()
        table.place.delete(paths)
        if isinstance(error, FileNotFoundError):
            return False  # another writer rewrote the files while we read
        raise
    # From here on an error may come after the decision: then the files stay, and `clean` checks them later.
    if table.exchange(rewrite.files, new, description, "replace"):
        return True
    table.place.delete(paths)
    return False


def _read(table: LakeTable, file: DataFile, whole: pa.Schema) -> Iterator[pa.RecordBatch]:
    path = table.read_path(file)
    try:
        yield from read_file(table.place.source(path), file, whole, whole_file=True)
    except pa.ArrowInvalid as error:
        raise StoreError(
            f"a data file cannot be read: {error}",
            path=table.place.url(path),
            hint="restore the file from a copy: its rows are in no other one. Nothing was changed",
        ) from error


def _check_rows(path: str, rewrite: Rewrite, new: Sequence[DataFile]) -> None:
    before, after = sum(file.rows for file in rewrite.files), sum(file.rows for file in new)
    if before != after:
        raise StoreError(
            f"{len(rewrite.files)} files have {after} rows, the table says {before}",
            path=path,
            hint="look for a file replaced by hand; the compaction changed nothing",
        )


def drop_days_before(where: Where, day: datetime.date, *, dry_run: bool, progress: Progress) -> int:
    """Take out the partitions of the days before this one; returns the number of rows."""
    table, description = open_described(where)
    if STORE_DAY not in description.partition_by:
        raise UsageError(
            f"the table at {table.place.url()} is not partitioned by {STORE_DAY}, so its old rows cannot be dropped by"
            " the day",
            hint=f"write to a new table with partitionBy = {STORE_DAY} from rows that have the column storeTimestamp; "
            "without --rows-older-than-days expire forgets old commits only",
        )
    if not dry_run:
        table.recover()
    while True:
        old: dict[Partition, list[DataFile]] = {}
        for file in table.files():
            value = dict(file.partition).get(STORE_DAY)
            if value is not None and datetime.date.fromisoformat(value) < day:
                old.setdefault(file.partition, []).append(file)
        for partition, files in sorted(old.items(), key=lambda item: str(item[0])):
            progress(
                f"{_named(partition)}: {len(files)} files, {sum(file.rows for file in files):,} rows, {_mb(files)} MB"
            )
        gone = [file for files in old.values() for file in files]
        if dry_run or not gone or table.exchange(gone, [], description, "delete"):
            return sum(file.rows for file in gone)


def clean(where: Where, *, grace_seconds: int, abandoned: bool, dry_run: bool, now: float, progress: Progress) -> int:
    """Delete files that no commit names, older than the grace, of decided batches (`abandoned`: of all).

    An undecided batch may be committed soon. Once its driver is gone its files are never used again: the tasks of the
    next driver write files of their own.
    """
    table, _ = open_described(where)
    if not dry_run:
        table.recover()
    deleted = 0
    for orphan in dict.fromkeys([*table.orphans(), *_half_made(table.place), *_staged_changes(table.place)]):
        match = _ORPHAN.fullmatch(orphan.name)
        written_ms = table.place.modified_ms(orphan)
        if written_ms is None or now - written_ms / 1000 < grace_seconds:
            continue
        if match and not abandoned and not _decided(table, match["query"], int(match["batch"])):
            progress(f"kept, its batch is not decided: {table.place.url(orphan)}")
            continue
        progress(table.place.url(orphan))
        deleted += 1
        if not dry_run:
            table.place.delete([orphan])
    return deleted


def _decided(table: LakeTable, query: str, batch: int) -> bool:
    last = table.last_batch(query)
    return query.startswith(_COMPACTOR) or (last is not None and last >= batch)


def _half_made(place: Place) -> list[PurePath]:
    # Left by put_if_absent, if it is killed before it gives the file its name.
    folders = [place.path / SIDECAR / name for name in ("log", "description")]
    return [folder / name for folder in folders for name in place.names(folder) if name.startswith(".")]


def _staged_changes(place: Place) -> list[PurePath]:
    folder = place.path / SIDECAR / "changes"
    return [folder / name for name in place.names(folder)]


def _named(partition: Partition) -> str:
    return "/".join(f"{name}={value}" for name, value in partition) or "table"


def _mb(files: Sequence[DataFile]) -> str:
    return f"{sum(file.bytes for file in files) / 1e6:,.1f}"
