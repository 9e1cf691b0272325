"""The driver's part: one commit per table and batch; repeated and foreign batches.

Owns        the order of tables, telling a replay from a second driver from a wrong checkpoint, abort.
Must not know   how a format commits.

The reasons for each case: docs/internals/lake_commit.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import WriterCommitMessage

from rocketlake.base.crash_point import crash_point
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import get_logger
from rocketlake.spark.lake.description import TableDescription
from rocketlake.spark.lake.messages import TaskWritten, parts_by_table
from rocketlake.spark.lake.offset_ranges import beyond
from rocketlake.spark.lake.tables.open_table import open_table
from rocketlake.spark.lake.tables.table import BatchPart, LakeTable
from rocketlake.spark.lake.upserts.on_driver import forget_changes, forget_superseded, with_changes
from rocketlake.spark.places.location import Location

__all__ = ["abort_batch", "commit_batch"]

log = get_logger(__name__)

_OLD_CHECKPOINT = (
    "go on with the newest copy of the checkpoint if this one is an old copy or lacks files; or take a new checkpoint"
    " (a new query id) whose startingOffsets are the end offsets of `rocketlake lake info`"
)


def commit_batch(messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
    """Commit the files of the tasks to each table. Raises StoreError if the batch is not ours to commit."""
    for number, (location, description, part) in enumerate(parts_by_table(messages, batch)):
        if number:
            crash_point("lake.between_tables")
        _commit(location, description, part)


def _commit(location: Location, description: TableDescription, part: BatchPart) -> None:
    table = open_table(location, description.table_format)
    crash_point("lake.before_commit")
    if part.bad_rows:
        log.warning("%s: %d rows of batch %d of query %s are bad", location, part.bad_rows, part.batch, part.query)
    if part.changes:
        if _commit_changes(table, part, description):
            return
    elif part.files and table.append(part, description):
        crash_point("lake.after_commit")
        return
    last = table.last_batch(part.query)
    if last is not None and last >= part.batch:
        table.recover()
        _check_repeated(table, part, last)


def _commit_changes(table: LakeTable, part: BatchPart, description: TableDescription) -> bool:
    """True if the batch was committed; False if the table has it, or has nothing to learn from it."""
    assert part.rule is not None
    last = table.last_batch(part.query)
    if last is not None and last >= part.batch:
        return False
    whole = with_changes(table, part, part.rule, description)
    crash_point("lake.after_changes")
    if not (whole.files and table.append(whole, description)):
        return False
    crash_point("lake.after_commit")
    forget_changes(table, part)
    forget_superseded(table, part, whole)
    return True


def _check_repeated(table: LakeTable, part: BatchPart, last: int) -> None:
    """The table has this batch: check that it has just these rows."""
    where = f"table {table.place.url()}, query {part.query}, batch {part.batch}"
    known = table.find(part.query, part.batch)
    if part.files or part.changes:
        if known is not None and known.attempts == part.attempts:
            return
        raise StoreError(
            f"another driver committed this batch while this one wrote it ({where})",
            hint="stop one of the two queries that run with this checkpoint, then start the other again",
        )
    if not part.content.rows or (known is None and last == part.batch):
        return  # nothing to compare: no rows, or its record has expired
    outside = beyond(part.offsets, known.offsets if known else {})
    if outside:
        raise StoreError(
            f"the table has this batch already, but with other messages ({where}; {outside})", hint=_OLD_CHECKPOINT
        )
    if known is None:
        raise StoreError(
            f"the table has a later batch of this query, and no record of this one ({where}; the last one is {last})",
            hint=_OLD_CHECKPOINT,
        )
    if known.content is not None and known.content.differs(part.content):
        raise StoreError(
            f"the table has this batch already, but with other rows ({where}; {known.content.rows} rows then,"
            f" {part.content.rows} now)",
            hint="if the query was changed while this batch was under way, let the batch through with the old query; if"
            f" its rows are other ones each time (uuid(), rand()), set compareReplays = false; else {_OLD_CHECKPOINT}",
        )


def abort_batch(messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
    """Delete the files of tasks that will not be committed. Spark also calls this after a failed commit. A
    commit may have failed after its decision: files of a batch that a table has stay. A store may make a commit late:
    if one may have been tried (all tasks have their message), files stay until the table has another's commit of the
    batch, or `clean` deletes them."""
    written = [message for message in messages if isinstance(message, TaskWritten)]
    if not written:
        return
    for location, description, part in parts_by_table(written, batch):
        if not (part.files or part.changes):
            continue
        table = open_table(location, description.table_format)
        forget_changes(table, part)
        last = table.last_batch(part.query)
        if last is not None and last >= part.batch:
            known = table.find(part.query, part.batch)
            if known is None or set(known.attempts) & set(part.attempts):
                continue
        elif not location.is_certain and len(written) == len(messages):
            continue
        table.forget_files(part)
