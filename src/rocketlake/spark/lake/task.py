"""The work of one Spark task: rows -> tables -> data files.

Owns        the table of each row, the dead-letter table beside it, the removal of files when the task fails.
Must not know   how one table takes rows (table_sink.py), commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StringType, StructType

from rocketlake.base.crash_point import crash_point
from rocketlake.base.errors import UsageError
from rocketlake.spark.lake.bodies.make_parser import make_parser
from rocketlake.spark.lake.messages import TaskWritten
from rocketlake.spark.lake.options import LakeOptions
from rocketlake.spark.lake.partition_names import ascii_name
from rocketlake.spark.lake.partitioning import check_partition_columns
from rocketlake.spark.lake.table_schema import stream_columns
from rocketlake.spark.lake.table_sink import REASON, Attempt, TableSink, partition_columns, stored_columns
from rocketlake.spark.places.location import Location

__all__ = ["LakeTask", "check_plan"]

_TABLES_MAX = 1000
_DEAD = "__dlq"


def check_plan(options: LakeOptions, stream: StructType) -> None:
    """Raises UsageError for options that no batch can be written with; called before the first batch."""
    stored = stream_columns(stream)
    kinds = {field.name: field.dataType for field in stored.fields}
    if options.per_topic and not isinstance(kinds.get("topic"), StringType):
        raise UsageError(
            "tableLayout = topic needs the column 'topic' (string)", hint="select it, or tableLayout = single"
        )
    if options.body_format != "raw" and not isinstance(kinds.get("body"), BinaryType | StringType):
        raise UsageError(
            f"bodyFormat = {options.body_format} needs the column 'body' (binary or string)",
            hint="select it, or bodyFormat = raw",
        )
    if options.on_bad_record == "dlq" and REASON in stored.fieldNames():
        raise UsageError(f"column '{REASON}' is what a dead-letter table adds", hint="rename it, or onBadRecord = fail")
    parser = make_parser(options)
    wanted = stored_columns(options, stored, parser)
    named = partition_columns(options.partition_by, stored)
    if parser is None or parser.fields.fields:  # inferred columns are known later
        check_partition_columns(named, wanted)
        if options.merge is not None:
            options.merge.check(wanted)


class LakeTask:
    """One attempt at one partition of a batch."""

    def __init__(self, options: LakeOptions, stream: StructType, query: str, batch: int) -> None:
        self._options = options
        self._stream = stream_columns(stream)
        # Spark's own attempt number begins anew with each driver.
        context = TaskContext.get()
        self._attempt = Attempt(query, batch, uuid4().hex, context.partitionId() if context else None)
        self._sinks: dict[Location, TableSink] = {}
        self._dead: list[TableSink] = []

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Write all rows; the files become part of tables when the driver commits."""
        try:
            for batch in batches:
                if len(batch):
                    for location, rows in self._by_table(batch):
                        self._sink(location).add(rows)
            written = [sink.close() for sink in (*self._sinks.values(), *self._dead)]
        except Exception:
            for sink in (*self._sinks.values(), *self._dead):
                sink.discard()
            raise
        crash_point("lake.after_write")
        return TaskWritten(
            self._attempt.query,
            self._attempt.batch,
            self._attempt.id,
            [table for table in written if table is not None],
        )

    def _by_table(self, batch: pa.RecordBatch) -> Iterator[tuple[Location, pa.RecordBatch]]:
        if not self._options.per_topic:
            yield self._options.location, batch
            return
        topics = batch.column(batch.schema.get_field_index("topic"))
        for topic in pc.unique(topics).to_pylist():
            if not topic:
                raise UsageError("a row has no topic, and tableLayout is topic", hint="filter such rows out")
            here = pc.equal(topics, topic)
            yield self._options.location.child(topic_folder(topic)), batch.filter(here)

    def _sink(self, location: Location) -> TableSink:
        sink = self._sinks.get(location)
        if sink is None:
            if len(self._sinks) >= _TABLES_MAX:
                raise UsageError(
                    f"one task has rows for more than {_TABLES_MAX} topics", hint="set tableLayout = single"
                )
            parser = make_parser(self._options)
            sink = TableSink(self._options, self._attempt, location, self._stream, parser, self._dead_letters(location))
            self._sinks[location] = sink
        return sink

    def _dead_letters(self, location: Location) -> TableSink:
        # Opened with the first row: most tables have no dead letters.
        dead = TableSink(self._options, self._attempt, location.sibling(_DEAD), self._stream, None, None)
        self._dead.append(dead)
        return dead


def topic_folder(topic: str) -> str:
    """A topic as a folder name: `~` and two digits for any character but letters, digits, `_` and `-`, and for a
    `_` in front, which would hide the folder from readers. Not `%`: Delta and Iceberg read folders as URIs."""
    name = ascii_name(topic).replace(".", "%2E")
    return (f"%{ord(name[0]):02X}{name[1:]}" if name[0] == "_" else name).replace("%", "~")
