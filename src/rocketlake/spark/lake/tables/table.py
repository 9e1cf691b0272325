"""The protocol of a lake table, for all formats.

Owns        the methods that writers call on a table, the values that they pass.
Must not know   a format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from rocketlake.base.errors import StoreError
from rocketlake.spark.lake.batch_content import BatchContent
from rocketlake.spark.lake.partition_names import Partition

if TYPE_CHECKING:
    from rocketlake.spark.lake.description import TableDescription
    from rocketlake.spark.lake.merge_rule import MergeRule
    from rocketlake.spark.lake.offset_ranges import OffsetRanges
    from rocketlake.spark.places.place import Place

__all__ = [
    "NAME",
    "NAME_PATTERN",
    "UNNAMED",
    "UNNAMED_MAX",
    "BatchPart",
    "Committed",
    "DataFile",
    "LakeTable",
    "another_upsert",
    "bucket_of",
    "data_file_name",
    "is_overtaken",
]

UNNAMED = "batch-"
"""Begins the query id of a batch write without txnAppId, which is never repeated: old ones are forgotten."""
UNNAMED_MAX = 100
"""A table remembers so many of them."""

NAME = r"b(?P<batch>\d{12})-(?P<query>[0-9A-Za-z_.-]{1,100})-(?P<attempt>[0-9a-f]{32})-(?P<number>\d{5})\.parquet"
"""The name of a data file names its batch and attempt, so that orphans can be found; no name is used twice."""

NAME_PATTERN = re.compile(NAME)


def data_file_name(query: str, batch: int, attempt: str, number: int) -> str:
    """The name of the number-th file that an attempt writes for a batch."""
    return f"b{batch:012d}-{query}-{attempt}-{number:05d}.parquet"


def another_upsert(url: str) -> StoreError:
    """The error of a batch that was laid over files which are not the newest any more."""
    return StoreError(
        "another program changed this table while a batch was laid over it",
        path=url,
        hint="let one query write to a table with mergeKeys; then start it again, it goes on where it was",
    )


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file of a table."""

    name: str
    """File name. For a live file its path as the table has it: other programs and earlier releases choose their own."""
    partition: Partition
    rows: int
    bytes: int
    misnamed: bool = False
    """Its folder has a name of an earlier release, from which Spark does not read the partition's values."""


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The part of one micro-batch for one table."""

    query: str
    batch: int
    attempts: tuple[str, ...]
    """Task attempts that wrote the files, sorted: two drivers with one checkpoint have different attempts."""
    files: tuple[DataFile, ...]
    offsets: OffsetRanges
    """The ranges of all rows meant for the table, bad ones too."""
    bad_rows: int = 0
    content: BatchContent = field(default_factory=BatchContent)
    """The content of the same rows."""
    replaced: tuple[DataFile, ...] = ()
    """Live files that these files replace: a table that is kept up to date by key."""
    changes: tuple[DataFile, ...] = ()
    """Staged by tasks for the driver."""
    rule: MergeRule | None = None


def bucket_of(file: str) -> int | None:
    """The bucket of a table that is kept up to date by key, from the path of its file; None for one not named so."""
    match = NAME_PATTERN.fullmatch(PurePath(unquote(file)).name)
    return int(match["number"]) if match else None


def is_overtaken(part: BatchPart, live: Iterable[str]) -> bool:
    """True if another writer changed a bucket of the part since it was laid over the table."""
    replaced = {file.name for file in part.replaced}
    buckets = {bucket_of(file.name) for file in part.files}
    there = set(live)
    return not replaced <= there or any(bucket_of(name) in buckets for name in there - replaced)


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit as the table remembers it; query is empty and batch -1 for one that is not a batch's."""

    version: int
    ms: int
    operation: str
    query: str
    batch: int
    attempts: tuple[str, ...]
    offsets: OffsetRanges = field(default_factory=dict)
    rows: int = 0
    files: int = 0
    bad_rows: int = 0
    content: BatchContent | None = None
    """None for a commit of a release that kept no content."""


class LakeTable(Protocol):
    """One table. Methods raise StoreError when a commit is refused for good,
    UnknownOutcome when nobody can tell whether it was made."""

    place: Place

    def last_batch(self, query: str) -> int | None:
        """The newest batch of this query that the table has."""

    def find(self, query: str, batch: int) -> Committed | None:
        """The commit of this batch, None if there was no commit or its record has expired."""

    def file_path(self, file: str, partition: Partition) -> PurePath:
        """The path to which a task writes a new file."""

    def append(self, part: BatchPart, description: TableDescription) -> bool:
        """One commit with these files, and without those that they replace; False if the table has this batch or a
        later one of the query already. StoreError if another writer changed a bucket meanwhile."""

    def recover(self) -> None:
        """Do the steps that a dead writer left undone after its commit."""

    def forget_files(self, part: BatchPart) -> None:
        """Delete the files of a part that was never committed."""

    def files(self) -> list[DataFile]:
        """Live files."""

    def read_path(self, file: DataFile) -> PurePath:
        """The path at which a live file can be read now."""

    def history(self, limit: int) -> list[Committed]:
        """Newest first."""

    def exchange(
        self, olds: Sequence[DataFile], news: Sequence[DataFile], description: TableDescription, operation: str
    ) -> bool:
        """One commit that replaces `olds` by `news`; False if one of `olds` is gone meanwhile."""

    def expire(self, before_ms: int, *, dry_run: bool, progress: Callable[[str], None]) -> int:
        """Drop history older than this, delete files that only it needed; returns the number of deleted files."""

    def orphans(self) -> list[PurePath]:
        """Files with our names that neither the table nor its remembered history refers to."""
