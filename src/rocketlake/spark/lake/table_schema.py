"""The columns of a table, and how they may grow.

Owns        wide types, names of body columns, union of an old and a new schema.
Must not know   how schemas are kept, how bodies are parsed.

Numbers that are not the queue's own are stored wide (integers as bigint, float as double). So a producer that goes from
int to long changes nothing, no written file ever has another type than its table, and every reader can read all files.
"""

from __future__ import annotations

import re

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rocketlake.base.errors import UsageError
from rocketlake.spark.schema import COLUMNS

__all__ = ["COLUMNS_MAX", "FIELD", "STORE_DAY", "arrow", "body_field", "clash", "grown", "stream_columns", "widened"]

STORE_DAY = "storeDay"
"""Partition column: day of storeTimestamp in UTC."""

FIELD = "field"
"""Key in a column's metadata: the name of the body's field it was made from."""

COLUMNS_MAX = 2000

_OWN = {name.lower() for name in (*COLUMNS, STORE_DAY, "dlqReason")}
_PLAIN = (
    BinaryType, BooleanType, DateType, DecimalType, DoubleType, LongType, StringType, TimestampNTZType, TimestampType
)  # fmt: skip


def widened(kind: DataType, column: str) -> DataType:
    """The type a column of this type is stored with. UsageError for types no table format has."""
    if isinstance(kind, ByteType | ShortType | IntegerType):
        return LongType()
    if isinstance(kind, FloatType):
        return DoubleType()
    if isinstance(kind, ArrayType):
        return ArrayType(widened(kind.elementType, column))
    if isinstance(kind, MapType):
        return MapType(widened(kind.keyType, column), widened(kind.valueType, column))
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, widened(field.dataType, column)) for field in kind.fields])
    if isinstance(kind, _PLAIN):
        return StringType() if isinstance(kind, StringType) else kind
    raise UsageError(
        f"column '{column}' is {kind.simpleString()}, which a lake table cannot hold", hint="cast it, or drop it"
    )


def stream_columns(stream: StructType) -> StructType:
    """The columns of a stream as they are stored; the queue's own keep their types. UsageError for doubled names."""
    found: dict[str, StructField] = {}
    for field in stream.fields:
        if field.name.lower() in found:
            raise UsageError(f"there are two columns '{field.name}' (case does not count)", hint="rename one")
        own = field.name in COLUMNS and COLUMNS[field.name][0] == field.dataType
        kind = field.dataType if own else widened(field.dataType, field.name)
        found[field.name.lower()] = StructField(field.name, kind, nullable=True)
    return StructType(list(found.values()))


def body_column(field: str) -> str:
    """The column of a body's field: only letters, digits and `_`, and apart from the queue's own columns."""
    name = re.sub(r"\W", "_", field)
    return f"body_{name}" if name.lower() in _OWN or not name else name


def body_field(field: str, kind: DataType) -> StructField:
    """The column of a body's field; it remembers the field's name."""
    return StructField(body_column(field), widened(kind, field), nullable=True, metadata={FIELD: field})


def clash(schema: StructType, name: str) -> str | None:
    """A column that differs from this name only by case, which Spark could not tell apart."""
    lower = name.lower()
    return next((field.name for field in schema.fields if field.name.lower() == lower and field.name != name), None)


def grown(old: StructType, wanted: StructType) -> StructType:
    """`old` and the new columns of `wanted`. UsageError for a column whose type changed."""
    columns = {field.name: field for field in old.fields}
    for field in wanted.fields:
        known = columns.get(field.name)
        if known is None:
            if (other := clash(old, field.name)) is not None:
                raise UsageError(
                    f"column '{field.name}' differs from the table's '{other}' only by case", hint="rename it"
                )
            columns[field.name] = field
        elif known.dataType != field.dataType:
            raise UsageError(
                f"column '{field.name}' is {known.dataType.simpleString()} in the table, now "
                f"{field.dataType.simpleString()}",
                hint="give it another name (a table grows by new columns and by wider numbers only), or write to "
                "another table",
            )
    if len(columns) > COLUMNS_MAX:
        raise UsageError(f"the table would have more than {COLUMNS_MAX} columns", hint="declare the wanted ones")
    return StructType(list(columns.values()))


def arrow(schema: StructType) -> pa.Schema:
    """The schema for Arrow; times in UTC."""
    plain = StructType([StructField(field.name, field.dataType, nullable=True) for field in schema.fields])
    return to_arrow_schema(plain, timezone="UTC")
