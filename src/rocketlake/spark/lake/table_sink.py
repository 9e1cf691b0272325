"""One table in one task: rows in, data files out.

Owns        the agreement on the table's description, the alignment of rows to its columns, bad rows, open files.
Must not know   how rows are shared among tables, commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DateType, StringType, StructField, StructType

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.spark.lake.batch_content import BatchContent, content_of
from rocketlake.spark.lake.bodies.parsed import BodyParser
from rocketlake.spark.lake.description import Descriptions, TableDescription
from rocketlake.spark.lake.file_writer import PartitionWriter
from rocketlake.spark.lake.messages import TableWritten
from rocketlake.spark.lake.offset_ranges import QUEUE_COLUMNS, add_batch
from rocketlake.spark.lake.options import LakeOptions
from rocketlake.spark.lake.partition_names import Partition
from rocketlake.spark.lake.partitioning import check_partition_columns, cut, with_store_day
from rocketlake.spark.lake.table_schema import COLUMNS_MAX, STORE_DAY, arrow, clash, grown
from rocketlake.spark.lake.tables.open_table import open_table
from rocketlake.spark.lake.tables.table import LakeTable, data_file_name
from rocketlake.spark.lake.tables.times import times_outside, without_times_outside
from rocketlake.spark.lake.upserts.bucket_files import BucketFiles
from rocketlake.spark.lake.upserts.sink import Upserts
from rocketlake.spark.places.location import Location
from rocketlake.spark.places.place import Writing

__all__ = ["Attempt", "TableSink", "describe", "partition_columns", "stored_columns"]

log = get_logger(__name__)

_GATHERED_BYTES_MAX = 128 << 20
REASON = "dlqReason"


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempt that writes the files."""

    query: str
    batch: int
    id: str
    partition: int | None = None
    """Spark's number of the task's partition."""


def partition_columns(wanted: tuple[str, ...] | None, columns: StructType) -> tuple[str, ...]:
    """Option partitionBy, or the day where rows have a time."""
    if wanted is not None:
        return wanted
    return (STORE_DAY,) if "storeTimestamp" in columns.fieldNames() else ()


def stored_columns(options: LakeOptions, stream: StructType, parser: BodyParser | None) -> StructType:
    """All columns of the table, before inferred ones; UsageError if two have one name."""
    fields = [field for field in stream.fields if options.include_body or field.name != "body"]
    if parser is not None:
        for field in parser.fields.fields:
            known = StructType(fields)
            if field.name in known.fieldNames() or clash(known, field.name):
                raise UsageError(
                    f"field '{field.name}' of the body would be a second column of that name", hint="rename the column"
                )
            fields.append(field)
    if STORE_DAY in partition_columns(options.partition_by, stream) and STORE_DAY not in stream.fieldNames():
        if "storeTimestamp" not in stream.fieldNames():
            raise UsageError(f"partition column '{STORE_DAY}' is made of 'storeTimestamp'", hint="select that, too")
        fields.append(StructField(STORE_DAY, DateType()))
    return StructType(fields)


def describe(
    options: LakeOptions, location: Location, stream: StructType, parser: BodyParser | None, *, dead_letters: bool
) -> TableDescription:
    """Make or extend the table's description until it has all columns that are known before the first row."""
    descriptions = Descriptions(location)
    kind, wanted = "rows", stream
    if dead_letters:
        kind, wanted = "dead letters", StructType([*stream.fields, StructField(REASON, StringType())])
        options = replace(options, partition_by=None, include_body=True, merge=None)
    partition_by = partition_columns(options.partition_by, stream)
    wanted = stored_columns(options, wanted, parser)
    while True:
        known = descriptions.latest()
        if known is None:
            check_partition_columns(partition_by, wanted)
            rule = options.merge.text if options.merge else ""
            descriptions.put(TableDescription(1, options.table_format, kind, partition_by, wanted, rule))
            continue
        _check_same(
            options, location, known, kind, known.partition_by if options.partition_by is None else partition_by
        )
        schema = grown(known.schema, wanted)
        if schema == known.schema:
            return known
        descriptions.put(known.with_schema(schema))


def _check_same(
    options: LakeOptions, location: Location, known: TableDescription, kind: str, partition_by: tuple[str, ...]
) -> None:
    for option, has, wants in (
        ("tableFormat", known.table_format, options.table_format),
        ("path", known.kind, kind),
        ("partitionBy", ",".join(known.partition_by), ",".join(partition_by)),
        ("mergeKeys", known.merge, options.merge.text if options.merge else ""),
    ):
        if has != wants:
            raise UsageError(
                f"the table at {location} has '{has}', the option '{option}' means '{wants}'",
                hint="keep the table's own, or write to another path",
            )


class TableSink:
    """Rows of one attempt for one table. Without `dead` it is a dead-letter table itself."""

    def __init__(
        self,
        options: LakeOptions,
        attempt: Attempt,
        location: Location,
        stream: StructType,
        parser: BodyParser | None,
        dead: TableSink | None,
    ) -> None:
        self.location = location
        self._options = options
        self._attempt = attempt
        self._stream = stream
        self._parser = parser
        self._dead = dead
        self._has_queues = all(name in stream.fieldNames() for name in QUEUE_COLUMNS)
        self._written: TableWritten
        self._writers: dict[Partition, PartitionWriter] = {}
        self._closed: list[PartitionWriter] = []
        self._place = location.open()
        self._paths: list[PurePath] = []
        self._opened = False
        self._decided = False
        self._table: LakeTable
        self._description: TableDescription
        self._descriptions = Descriptions(self._place)
        is_merged = options.merge is not None and dead is not None
        self._upserts = Upserts(options.merge, attempt.partition) if options.merge is not None and is_merged else None
        self._bucket_files: BucketFiles | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows of the stream."""
        self._open()
        if self._has_queues:
            add_batch(self._written.offsets, batch)
        if self._options.compare_replays:
            self._written.content += content_of(batch)
        else:
            self._written.content += BatchContent(len(batch))
        if self._decided:
            return
        bad: dict[int, str] = {}
        self._write(batch, bad)
        if bad:
            self._refuse(batch, bad)

    def close(self) -> TableWritten | None:
        """Finish the files; None if there was no row."""
        if not self._opened:
            return None
        for writer in (*self._closed, *self._writers.values()):
            self._written.files += writer.close()
        if self._upserts is not None and self._options.merge is not None:
            self._bucket_files = BucketFiles(
                self._table,
                self._options.merge,
                arrow(self._description.schema),
                self._attempt.query,
                self._attempt.batch,
                self._options.compression,
            )
            self._upserts.close(self._table, self._bucket_files, self._written)
        return self._written

    def discard(self) -> None:
        """The attempt failed: its files are not needed."""
        for writer in (*self._closed, *self._writers.values()):
            writer.abort()
        try:
            self._place.delete([*self._paths, *(self._bucket_files.paths if self._bucket_files else ())])
        except StoreError as error:  # why the attempt failed is worth more
            log.warning("%s: files of a failed task are left to `rocketlake lake clean`: %s", self.location, error)

    def _open(self) -> None:
        if self._opened:
            return
        self._description = describe(
            self._options, self.location, self._stream, self._parser, dead_letters=self._dead is None
        )
        self._table = open_table(self._place, self._options.table_format)
        self._written = TableWritten(self.location, self._dead is None, self._description)
        last = self._table.last_batch(self._attempt.query)
        self._decided = last is not None and last >= self._attempt.batch
        self._opened = True

    def _grow(self, wanted: StructType) -> StructType:
        """For inferred columns: new names join the table; a name that is taken keeps the type of its column."""
        while wanted.fields:
            known = self._description.schema
            names = set(known.fieldNames())
            new = [f for f in wanted.fields if f.name not in names and clash(known, f.name) is None]
            new = new[: max(0, COLUMNS_MAX - len(names))]
            if not new:
                break
            self._descriptions.put(self._description.with_schema(StructType([*known.fields, *new])))
            latest = self._descriptions.latest()
            assert latest is not None
            self._description = self._written.description = latest
        return self._description.schema

    def _write(self, batch: pa.RecordBatch, bad: dict[int, str]) -> None:
        kept: Sequence[int] = range(len(batch))
        columns: dict[str, pa.Array] = {}
        if self._parser is not None:
            parsed = self._parser.parse(_bodies(batch), self._grow)
            columns = parsed.columns
            bad.update(parsed.bad)
            if bad or parsed.skipped:
                kept = [number for number in kept if number not in bad and number not in parsed.skipped]
                batch = batch.take(pa.array(kept, pa.int64()))
        if not len(batch):
            return
        if not self._description.schema.fields:
            bad.update(dict.fromkeys(kept, "the table has no column yet, and the body no member to make one of"))
            return
        if STORE_DAY in self._description.schema.fieldNames() and STORE_DAY not in batch.schema.names:
            batch = with_store_day(batch)
        columns |= {name: batch.column(place) for place, name in enumerate(batch.schema.names) if name not in columns}
        aligned = _aligned(columns, arrow(self._description.schema), len(batch))
        if self._dead is None:
            aligned = without_times_outside(aligned)  # the reason names them
        elif outside := times_outside(aligned):
            bad.update({kept[number]: reason for number, reason in outside.items()})
            inside = [number for number in range(len(aligned)) if number not in outside]
            if not inside:
                return
            kept, aligned = [kept[number] for number in inside], aligned.take(pa.array(inside, pa.int64()))
        if self._upserts is not None:
            refused = self._upserts.refused(aligned)
            bad.update({kept[number]: reason for number, reason in refused.items()})
            taken = [number for number in range(len(aligned)) if number not in refused]
            self._upserts.add(aligned.take(pa.array(taken, pa.int64())) if refused else aligned)
            return
        misplaced: dict[int, str] = {}
        for partition, rows in cut(aligned, self._description.partition_by, misplaced):
            self._writer(partition).add(rows.select(self._file_columns()))
        self._limit_memory()
        bad.update({kept[number]: reason for number, reason in misplaced.items()})

    def _file_columns(self) -> list[str]:
        # Iceberg finds a file's partition in the columns; other formats find it in the folder or the log.
        left_out = () if self._options.table_format == "iceberg" else self._description.partition_by
        return [name for name in self._description.schema.fieldNames() if name not in left_out]

    def _writer(self, partition: Partition) -> PartitionWriter:
        writer = self._writers.get(partition)
        whole = arrow(self._description.schema)
        schema = pa.schema([whole.field(name) for name in self._file_columns()])
        if writer is not None and not writer.fits(schema):
            self._closed.append(self._writers.pop(partition))
            writer = None
        if writer is None:
            if len(self._writers) >= self._options.partitions_max:
                raise UsageError(
                    f"one task has rows for more than {self._options.partitions_max} partitions of {self.location}",
                    hint="partition by a column with fewer values, or raise 'maxPartitions'",
                )
            writer = PartitionWriter(
                partition,
                schema,
                lambda: self._begin(partition),
                self._options.compression,
                self._options.target_file_bytes,
            )
            self._writers[partition] = writer
        return writer

    def _begin(self, partition: Partition) -> tuple[str, Writing]:
        attempt = self._attempt
        name = data_file_name(attempt.query, attempt.batch, attempt.id, len(self._paths))
        self._paths.append(self._table.file_path(name, partition))
        return name, self._place.writer(self._paths[-1])

    def _limit_memory(self) -> None:
        while sum(writer.gathered for writer in self._writers.values()) > _GATHERED_BYTES_MAX:
            max(self._writers.values(), key=lambda writer: writer.gathered).flush()

    def _refuse(self, batch: pa.RecordBatch, bad: dict[int, str]) -> None:
        rows = sorted(bad)
        if self._options.on_bad_record == "fail":
            place = batch.slice(rows[0], 1).select([n for n in QUEUE_COLUMNS if n in batch.schema.names]).to_pylist()[0]
            raise StoreError(
                f"a message cannot be stored in {self.location}: {bad[rows[0]]} "
                + ", ".join(f"{name} {value}" for name, value in place.items()),
                hint="onBadRecord = dlq keeps such messages in a table of their own",
            )
        self._written.bad_rows += len(rows)
        if self._options.on_bad_record == "dlq" and self._dead is not None:
            reasons = pa.array([bad[row] for row in rows], pa.string())
            self._dead.add(batch.take(pa.array(rows, pa.int64())).append_column(REASON, reasons))


def _bodies(batch: pa.RecordBatch) -> list[bytes | None]:
    column = batch.column(batch.schema.get_field_index("body"))
    bodies: list[bytes | None] = pc.cast(column, pa.binary()).to_pylist()
    return bodies


def _aligned(columns: dict[str, pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        array = columns.get(field.name)
        if array is None:
            array = pa.nulls(rows, field.type)
        elif array.type != field.type:
            array = pc.cast(array, field.type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
