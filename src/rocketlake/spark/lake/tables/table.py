"""What a lake table can do, whatever its format.

Owns        the protocol between the writers and a table; the values that cross it.
Must not know   a format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rocketlake.spark.lake.batch_content import BatchContent
from rocketlake.spark.lake.partition_names import Partition

if TYPE_CHECKING:
    from rocketlake.spark.lake.description import TableDescription
    from rocketlake.spark.lake.offset_ranges import OffsetRanges

__all__ = [
    "NAME",
    "NAME_PATTERN",
    "UNNAMED",
    "BatchPart",
    "Committed",
    "DataFile",
    "LakeTable",
    "data_file_name",
]

UNNAMED = "batch-"
"""Begins the query id of a batch write without txnAppId, which is never repeated: old ones are forgotten."""

NAME = r"b(?P<batch>\d{12})-(?P<query>[0-9A-Za-z_.-]{1,100})-(?P<attempt>[0-9a-f]{32})-(?P<number>\d{5})\.parquet"
"""Data files say whose they are, so that orphans can be told apart; a name is never used twice."""

NAME_PATTERN = re.compile(NAME)


def data_file_name(query: str, batch: int, attempt: str, number: int) -> str:
    """The name of the number-th file that an attempt writes for a batch."""
    return f"b{batch:012d}-{query}-{attempt}-{number:05d}.parquet"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file of a table."""

    name: str
    """File name; of a live Delta or Iceberg file, which others may have written, where it lies."""
    partition: Partition
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BatchPart:
    """What one micro-batch adds to one table."""

    query: str
    batch: int
    attempts: tuple[str, ...]
    """Task attempts whose files these are, sorted: two drivers with one checkpoint have different ones."""
    files: tuple[DataFile, ...]
    offsets: OffsetRanges
    """Of all rows that were meant for the table, bad ones too."""
    bad_rows: int = 0
    content: BatchContent = field(default_factory=BatchContent)
    """Of the same rows."""


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
    """None: its release kept none."""


class LakeTable(Protocol):
    """One table. Methods raise StoreError when a commit is refused for good."""

    path: Path

    def last_batch(self, query: str) -> int | None:
        """The newest batch of this query that the table has."""

    def find(self, query: str, batch: int) -> Committed | None:
        """The commit of this batch, None if there was none or its record has expired."""

    def file_path(self, file: str, partition: Partition) -> Path:
        """Where a task writes a new file."""

    def append(self, part: BatchPart, description: TableDescription) -> bool:
        """One commit with these files; False if the table has this batch or a later one of the query already."""

    def recover(self) -> None:
        """Finish what a writer that died has left to do after its commit."""

    def forget_files(self, part: BatchPart) -> None:
        """Delete the files of a part that was never committed."""

    def files(self) -> list[DataFile]:
        """Live files."""

    def read_path(self, file: DataFile) -> Path:
        """Where a live file can be read now."""

    def history(self, limit: int) -> list[Committed]:
        """Newest first."""

    def exchange(
        self, olds: Sequence[DataFile], news: Sequence[DataFile], description: TableDescription, operation: str
    ) -> bool:
        """One commit that puts `news` in the place of `olds`; False if one of those is gone meanwhile."""

    def expire(self, before_ms: int, *, dry_run: bool, progress: Callable[[str], None]) -> int:
        """Forget history older than this and delete what only it needed; returns the number of files deleted."""

    def orphans(self) -> list[Path]:
        """Files with our names that neither the table nor its remembered history refers to."""
