"""One partition's rows of one task -> Parquet files.

Owns        the encoding of files, their size.
Must not know   the meaning of rows, how files are committed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rocketlake.base.crash_point import crash_point
from rocketlake.spark.lake.partition_names import Partition
from rocketlake.spark.lake.tables.table import DataFile
from rocketlake.spark.places.place import Writing

__all__ = ["PartitionWriter"]

_ROW_GROUP_BYTES = 64 << 20
_SAMPLE_ROWS = 1000
_UNIQUE = frozenset({"body", "msgId", "offsetMsgId", "keys", "transactionId", "properties", "dlqReason"})
"""Columns without a dictionary: nearly every row has a value of its own."""
_NO_BOUNDS = frozenset({"body", "properties"})
"""Columns without smallest and largest value: queries do not search by them, and their values are long."""

Begin = Callable[[], tuple[str, Writing]]
"""Name of the next file, and the file, begun."""


class PartitionWriter:
    """Rows are gathered to row groups, row groups to files."""

    def __init__(self, partition: Partition, schema: pa.Schema, begin: Begin, compression: str, bytes_max: int) -> None:
        self.partition = partition
        self.gathered = 0
        self.files: list[DataFile] = []
        self.footer: dict[str, str] = {}
        """Texts that each file finished from now on has beside its rows."""
        self._schema = schema
        self._begin = begin
        self._compression = compression
        self._bytes_max = bytes_max
        self._batches: list[pa.RecordBatch] = []
        self._open: _OpenFile | None = None

    def fits(self, schema: pa.Schema) -> bool:
        """True if this is still the schema of the writer's files."""
        return bool(self._schema.equals(schema))

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; they are written now or later."""
        self._batches.append(batch)
        self.gathered += batch.nbytes
        if self.gathered >= _ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the gathered rows as one row group."""
        if not self._batches:
            return
        rows = pa.Table.from_batches(self._batches)
        if self._open is None:
            self._open = _OpenFile(*self._begin(), rows, self._compression)
        self._open.write(rows)
        self._batches, self.gathered = [], 0
        crash_point("lake.mid_write")
        if self._open.bytes >= self._bytes_max:
            self._finish()

    def close(self) -> list[DataFile]:
        """All files, safe on disk."""
        self.flush()
        self._finish()
        return self.files

    def abort(self) -> None:
        """Leave nothing of an unfinished file."""
        if self._open is not None:
            self._open.abort()
            self._open = None

    def _finish(self) -> None:
        if self._open is not None:
            self.files.append(self._open.close(self.partition, self.footer))
            self._open = None


class _OpenFile:
    def __init__(self, name: str, file: Writing, first: pa.Table, compression: str) -> None:
        schema = first.schema
        self._name = name
        self._file = file
        self._rows = 0
        bounded = [field.name for field in schema if field.name not in _NO_BOUNDS and not _nested(field.type)]
        settings: dict[str, Any] = {
            "compression": compression,
            "use_dictionary": [field.name for field in schema if _has_dictionary(field) and _repeats(first, field)],
            "write_statistics": bounded,
        }
        self._writer = pq.ParquetWriter(file.sink, schema, **settings)

    @property
    def bytes(self) -> int:
        return int(self._file.sink.tell())

    def write(self, rows: pa.Table) -> None:
        self._rows += len(rows)
        self._writer.write_table(rows, row_group_size=max(1, len(rows)))

    def close(self, partition: Partition, footer: dict[str, str]) -> DataFile:
        if footer:
            self._writer.add_key_value_metadata(footer)
        self._writer.close()
        size = self.bytes
        self._file.close()
        return DataFile(self._name, partition, self._rows, size)

    def abort(self) -> None:
        with suppress(Exception):
            self._writer.close()  # else it writes its last bytes when it is collected
        self._file.abort()


def _nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def _repeats(rows: pa.Table, field: pa.Field) -> bool:
    """True if values of the column come again: for others a dictionary is made and thrown away."""
    sample = rows.column(field.name).slice(0, _SAMPLE_ROWS)
    return bool(2 * pc.count_distinct(sample).as_py() <= len(sample) or len(sample) < _SAMPLE_ROWS)


def _has_dictionary(field: pa.Field) -> bool:
    return field.name not in _UNIQUE and not _nested(field.type) and not pa.types.is_timestamp(field.type)
