"""Reading a lake table into Spark: one version of it, whole batches only.

Owns        files of a version -> Spark partitions -> Arrow batches.
Must not know   writers.

Plain readers list folders and may see a half moved batch; this reader takes the files from the table's log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.spark.lake.description import Descriptions, TableDescription
from rocketlake.spark.lake.options import NAMES, table_location
from rocketlake.spark.lake.table_schema import arrow
from rocketlake.spark.lake.tables.open_table import open_table
from rocketlake.spark.lake.tables.table import DataFile
from rocketlake.spark.places.location import Location

__all__ = ["LakeReader", "described", "read_file", "read_opened", "table_schema"]

_ROWS = 8192


@dataclass
class FilePartition(InputPartition):
    """One data file."""

    file: DataFile


def described(location: Location) -> TableDescription:
    """The description of the table in this folder. UsageError if there is no table."""
    description = Descriptions(location).latest()
    if description is None:
        raise UsageError(
            f"there is no lake table at {location}",
            hint="give the folder that the stream writes to; it is a table from its first commit on",
        )
    return description


def table_schema(options: Mapping[str, str]) -> StructType:
    """Columns of the table at option path."""
    schema = described(table_location(NAMES.given(options))).schema
    return StructType([StructField(field.name, field.dataType, nullable=True) for field in schema.fields])


class LakeReader(DataSourceReader):
    """A batch read; a user's own .schema(...) may name fewer columns."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._location = table_location(NAMES.given(options))
        self._format = described(self._location).table_format
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """A Spark task per file of the newest version; one without rows for an empty table."""
        found: list[InputPartition] = [FilePartition(file) for file in open_table(self._location, self._format).files()]
        return found or [FilePartition(DataFile("", (), 0, 0))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a file."""
        assert isinstance(partition, FilePartition)
        schema = arrow(self._schema)
        if not partition.file.name:
            return
        table = open_table(self._location, self._format)
        try:
            yield from read_file(table.place.source(table.read_path(partition.file)), partition.file, schema)
        except FileNotFoundError as error:
            raise StoreError(
                "a file of the table is gone: it was compacted or expired while it was read",
                path=str(error.filename or self._location),
                hint="run the query again; it then reads the newest version",
            ) from error


def read_file(source: Any, file: DataFile, schema: pa.Schema, *, whole_file: bool = False) -> Iterator[pa.RecordBatch]:
    """Batches of exactly this schema; partition columns come from the file's place, missing ones are null.

    `source`: what pyarrow reads the file from.
    `whole_file`: StoreError if the file has a column that the schema lacks, for callers that replace the file.
    """
    with pq.ParquetFile(source) as parquet:
        yield from read_opened(parquet, file, schema, whole_file=whole_file)


def read_opened(
    parquet: pq.ParquetFile, file: DataFile, schema: pa.Schema, *, whole_file: bool = False, rows: int = _ROWS
) -> Iterator[pa.RecordBatch]:
    """The same of a file that is open, in batches of so many rows."""
    values = dict(file.partition)
    there = set(parquet.schema_arrow.names)
    if whole_file and (unknown := sorted(there - set(schema.names))):
        raise StoreError(
            f"a file has columns that the table's description lacks: {', '.join(unknown)}",
            path=file.name,
            hint="write to the table with RocketLake, then compact it again; or compact it with the program that"
            " added the columns. Nothing was changed",
        )
    wanted = [name for name in schema.names if name in there]
    for batch in parquet.iter_batches(rows, columns=wanted):
        yield pa.RecordBatch.from_arrays([_column(batch, field, values, there) for field in schema], schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field, values: Mapping[str, str | None], there: set[str]) -> pa.Array:
    if field.name in there:
        column = batch.column(field.name)
        return column if column.type == field.type else pc.cast(column, field.type)
    text = values.get(field.name)
    if text is None:
        return pa.nulls(len(batch), field.type)
    return pc.cast(pa.array([text] * len(batch), pa.string()), field.type)
