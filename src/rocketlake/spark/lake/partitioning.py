"""Rows of a batch by partition.

Owns        partition values of rows as text, cutting a batch.
Must not know   files, folder names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BooleanType, DataType, DateType, IntegerType, LongType, StringType, StructType

from rocketlake.base.errors import UsageError
from rocketlake.spark.lake.partition_names import VALUE_BYTES_MAX, Partition, fits
from rocketlake.spark.lake.table_schema import STORE_DAY

__all__ = ["check_partition_columns", "cut", "with_store_day"]

_KINDS: tuple[type[DataType], ...] = (StringType, LongType, IntegerType, DateType, BooleanType)


def check_partition_columns(columns: Sequence[str], schema: StructType) -> None:
    """Raises UsageError for a missing column, and for one whose values make no folders."""
    kinds = {field.name: field.dataType for field in schema.fields}
    for name in columns:
        if name not in kinds:
            raise UsageError(
                f"option 'partitionBy' names '{name}', which is no column of the table",
                hint="use one of the columns " + ", ".join(kinds),
            )
        if not isinstance(kinds[name], _KINDS) or name.startswith(("_", ".")):
            raise UsageError(
                f"column '{name}' ({kinds[name].simpleString()}) cannot name partitions",
                hint="choose a string, whole number, date or boolean whose name does not begin with '_'",
            )
    if columns and len(columns) >= len(kinds):
        raise UsageError("option 'partitionBy' names all columns of the table", hint="leave one out")


def with_store_day(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its column storeDay: day of storeTimestamp in UTC."""
    # Spark's batches have the session's time zone, and Arrow takes the day there.
    moments = pc.cast(batch.column("storeTimestamp"), pa.timestamp("us", "UTC"))
    day = pc.cast(moments, pa.date32(), safe=False)
    return batch.append_column(pa.field(STORE_DAY, pa.date32()), day)


def cut(
    batch: pa.RecordBatch, columns: Sequence[str], bad: dict[int, str]
) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """The rows of each partition; rows whose value cannot name a folder are left out and named in `bad`."""
    if not columns:
        yield (), batch
        return
    codes = np.zeros(len(batch), dtype=np.int64)
    values: list[list[str | None]] = []
    for name in columns:
        encoded = pc.dictionary_encode(batch.column(name), null_encoding="encode")
        texts = [_text(value) for value in encoded.dictionary.to_pylist()]
        values.append(texts)
        codes = codes * max(1, len(texts)) + np.asarray(encoded.indices, dtype=np.int64)
    for code in np.unique(codes).tolist():
        rows = np.flatnonzero(codes == code)
        partition = _partition(columns, values, code)
        wrong = next((name for name, value in partition if value is not None and not fits(name, value)), None)
        if wrong is None:
            yield partition, batch if len(rows) == len(batch) else batch.take(pa.array(rows))
        else:
            reason = f"the value of partition column '{wrong}' is longer than {VALUE_BYTES_MAX} bytes"
            bad.update(dict.fromkeys(rows.tolist(), reason))


def _partition(columns: Sequence[str], values: Sequence[list[str | None]], code: int) -> Partition:
    parts: list[tuple[str, str | None]] = []
    for name, texts in zip(reversed(columns), reversed(values), strict=True):
        code, place = divmod(code, max(1, len(texts)))
        parts.append((name, texts[place]))
    return tuple(reversed(parts))


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    # Neither Hive nor Delta can tell an empty text from null: as a partition it is null.
    return None if value is None or value == "" else str(value)
