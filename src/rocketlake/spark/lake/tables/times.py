"""Times that not every reader of a table holds: those outside the years 1 to 9999.

Owns        finding such dates and timestamps in Arrow columns, taking them out.
Must not know   tables, where rows come from.

Arrow, Java and Parquet count microseconds for 290,000 years. pyiceberg, deltalake, and Python rows of Spark raise an
error for a value that Python's datetime does not hold: it would stop a stream, or hide a whole table.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketlake.spark.record_form import Bools
from rocketlake.spark.schema import DAY_MAX, DAY_MIN

__all__ = ["times_outside", "without_times_outside"]

_DAY_US = 86_400_000_000
_REASON_CHARS_MAX = 200


def times_outside(batch: pa.RecordBatch) -> dict[int, str]:
    """Rows with a date or timestamp outside the range, also inside of arrays, maps and structs; why, with the value."""
    found: dict[int, str] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for row in np.flatnonzero(_outside(column)).tolist():
            value = " ".join(column.slice(row, 1).to_string(indent=0).split()).strip("[] ")
            reason = f"column '{name}' has a time outside the years 1 to 9999: {value[:_REASON_CHARS_MAX]}"
            found[row] = f"{found[row]}; {reason}" if row in found else reason
    return found


def without_times_outside(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with null for each value that has such a time."""
    columns = []
    for column in batch.columns:
        outside = _outside(column)
        if outside.any():
            column = pc.if_else(pa.array(outside), pa.scalar(None, column.type), column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _outside(column: pa.Array) -> Bools:
    """True for each value that is, or contains, a time outside the range."""
    kind = column.type
    if pa.types.is_date32(kind):
        return _beyond(column.view(pa.int32()), DAY_MIN, DAY_MAX)
    if pa.types.is_timestamp(kind):
        micros = pc.cast(column, pa.timestamp("us", kind.tz)).view(pa.int64())
        return _beyond(micros, DAY_MIN * _DAY_US, (DAY_MAX + 1) * _DAY_US - 1)
    found: Bools = np.zeros(len(column), dtype=np.bool_)
    if not _has_times(kind):
        return found
    if pa.types.is_struct(kind):
        for field in column.flatten():
            found |= _outside(field)
        return found
    offsets = np.asarray(column.offsets)
    parents = np.repeat(np.arange(len(column)), np.diff(offsets))
    for inner in (column.keys, column.items) if pa.types.is_map(kind) else (column.values,):
        found[parents[_outside(inner[int(offsets[0]) : int(offsets[-1])])]] = True
    found &= np.asarray(pc.is_valid(column))
    return found


def _beyond(numbers: pa.Array, low: int, high: int) -> Bools:
    kind = numbers.type
    found = pc.or_(pc.less(numbers, pa.scalar(low, kind)), pc.greater(numbers, pa.scalar(high, kind)))
    return np.asarray(pc.fill_null(found, False), dtype=np.bool_)


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_times(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date32(kind))
