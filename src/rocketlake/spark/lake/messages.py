"""The message of a task to the driver about the files that it wrote.

Owns        the commit message; putting those of all tasks together by table.
Must not know   how files are written or committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage

from rocketlake.base.errors import InternalError, StoreError
from rocketlake.spark.lake.batch_content import BatchContent
from rocketlake.spark.lake.description import TableDescription
from rocketlake.spark.lake.merge_rule import MergeRule
from rocketlake.spark.lake.offset_ranges import OffsetRanges, merge
from rocketlake.spark.lake.tables.table import BatchPart, DataFile
from rocketlake.spark.places.location import Location

__all__ = ["TableWritten", "TaskWritten", "parts_by_table"]


@dataclass
class TableWritten:
    """One table's share of a task. Files are missing if the table had the batch already."""

    location: Location
    dead_letters: bool
    description: TableDescription
    """As of the task's last row: the files have no other columns."""
    files: list[DataFile] = field(default_factory=list)
    offsets: OffsetRanges = field(default_factory=dict)
    replaced: list[DataFile] = field(default_factory=list)
    changes: list[DataFile] = field(default_factory=list)
    rule: MergeRule | None = None
    bad_rows: int = 0
    content: BatchContent = field(default_factory=BatchContent)


@dataclass
class TaskWritten(WriterCommitMessage):
    """The commit message of one task attempt."""

    query: str
    batch: int
    attempt: str
    tables: list[TableWritten]


def parts_by_table(
    messages: Sequence[WriterCommitMessage | None], batch: int
) -> list[tuple[Location, TableDescription, BatchPart]]:
    """Location, newest description and share of each table, dead letters first (docs/internals/lake_commit.md)."""
    tasks: list[TaskWritten] = []
    for message in messages:
        if not isinstance(message, TaskWritten):
            raise InternalError(f"a task of batch {batch} has no commit message")
        tasks.append(message)
    if len({task.query for task in tasks}) > 1 or any(task.batch != batch for task in tasks):
        raise StoreError("tasks of several queries or batches came in one commit", hint="report this as a bug")
    shares: dict[tuple[bool, Location], list[tuple[str, TableWritten]]] = {}
    for task in tasks:
        for table in task.tables:
            shares.setdefault((not table.dead_letters, table.location), []).append((task.attempt, table))
    return [
        (key[1], _newest_description(shares[key]), _part(tasks[0].query, batch, shares[key]))
        for key in sorted(shares, key=lambda key: (key[0], str(key[1])))
    ]


def _newest_description(shares: Iterable[tuple[str, TableWritten]]) -> TableDescription:
    return max((share.description for _, share in shares), key=lambda description: description.version)


def _part(query: str, batch: int, shares: Iterable[tuple[str, TableWritten]]) -> BatchPart:
    offsets: OffsetRanges = {}
    files: list[DataFile] = []
    replaced: list[DataFile] = []
    changes: list[DataFile] = []
    rule: MergeRule | None = None
    attempts: set[str] = set()
    bad_rows = 0
    content = BatchContent()
    for attempt, share in shares:
        merge(offsets, share.offsets)
        files += share.files
        replaced += share.replaced
        changes += share.changes
        rule = rule or share.rule
        bad_rows += share.bad_rows
        content += share.content
        if share.files or share.changes:
            attempts.add(attempt)
    files.sort(key=lambda file: file.name)
    return BatchPart(
        query,
        batch,
        tuple(sorted(attempts)),
        tuple(files),
        offsets,
        bad_rows,
        content,
        replaced=tuple(replaced),
        changes=tuple(changes),
        rule=rule,
    )
