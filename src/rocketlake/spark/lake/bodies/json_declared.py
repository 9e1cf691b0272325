"""JSON bodies whose columns were declared as DDL.

Owns        Spark types -> types that msgspec decodes and checks.
Must not know   tables.

Strict: a number in quotes is no number. Members that are not declared are left out; missing ones and null are null.
Times without zone are UTC.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rocketlake.base.errors import UsageError
from rocketlake.spark.lake.bodies.ddl import parse_ddl
from rocketlake.spark.lake.bodies.parsed import Grow, Parsed, build_columns, short
from rocketlake.spark.lake.table_schema import FIELD, body_field

__all__ = ["DeclaredJson"]

_LONG = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_PLAIN: dict[type[DataType], Any] = {
    BooleanType: bool,
    LongType: _LONG,
    DoubleType: float,
    StringType: str,
    BinaryType: bytes,
    DateType: datetime.date,
    TimestampType: datetime.datetime,
    TimestampNTZType: datetime.datetime,
    DecimalType: decimal.Decimal,
}

Convert = Callable[[Any], Any]


class DeclaredJson:
    """Bodies that are JSON objects; `ddl` names the members that become columns."""

    def __init__(self, ddl: str) -> None:
        self.fields = StructType([body_field(field.name, field.dataType) for field in parse_ddl(ddl).fields])
        names = [field.metadata[FIELD] for field in self.fields.fields]
        types = [field.dataType for field in self.fields.fields]
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_struct(names, types))
        self._converts = [(place, convert) for place, kind in enumerate(types) if (convert := _convert(kind))]

    def parse(self, bodies: Sequence[bytes | None], grow: Grow) -> Parsed:
        """One pass; msgspec names the member that does not fit."""
        rows: list[Sequence[Any] | None] = []
        bad: dict[int, str] = {}
        decode, as_tuple = self._decoder.decode, msgspec.structs.astuple
        for number, body in enumerate(bodies):
            try:
                rows.append(as_tuple(decode(body or b"")))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                rows.append(None)
                bad[number] = f"json: {short(error)}"
        for number, row in enumerate(rows) if self._converts else ():
            try:
                rows[number] = row and self._converted(row)
            except OverflowError:
                rows[number] = None
                bad[number] = "json: a time outside the years 1 to 9999 in UTC"
        return build_columns(rows, self.fields, bad)

    def _converted(self, row: Sequence[Any]) -> Sequence[Any]:
        cells = list(row)
        for place, convert in self._converts:
            if cells[place] is not None:
                cells[place] = convert(cells[place])
        return cells


def _struct(names: Sequence[str], kinds: Sequence[DataType]) -> Any:
    # Attributes have names of their own: members may be named like Python's keywords.
    attributes = [f"m{place}" for place in range(len(names))]
    return msgspec.defstruct(
        "Body",
        [(attribute, _python(kind) | None, None) for attribute, kind in zip(attributes, kinds, strict=True)],
        rename=dict(zip(attributes, names, strict=True)),
        gc=False,
    )


def _python(kind: DataType) -> Any:
    if isinstance(kind, ArrayType):
        return list[_python(kind.elementType) | None]  # type: ignore[misc]
    if isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType):
            raise UsageError(
                f"option 'bodySchema' has a {kind.simpleString()}",
                hint="write map<string, ...>: keys of JSON objects are text",
            )
        return dict[str, _python(kind.valueType) | None]  # type: ignore[misc]
    if isinstance(kind, StructType):
        return _struct(kind.fieldNames(), [field.dataType for field in kind.fields])
    return _PLAIN[type(kind)]


def _convert(kind: DataType) -> Convert | None:
    """The conversion of msgspec's values to Arrow's; None if both are the same."""
    if isinstance(kind, StructType):
        inner = [(field, f"m{place}", _convert(field.dataType)) for place, field in enumerate(kind.fields)]
        return lambda value: {field.name: _cell(getattr(value, attribute), step) for field, attribute, step in inner}
    if isinstance(kind, ArrayType):
        each = _convert(kind.elementType)
        return each and (lambda values: [_cell(value, each) for value in values])
    if isinstance(kind, MapType):
        each = _convert(kind.valueType)
        return lambda values: [(key, _cell(value, each)) for key, value in values.items()]
    if isinstance(kind, TimestampType | TimestampNTZType):
        zone = datetime.UTC if isinstance(kind, TimestampType) else None
        return lambda moment: _moment(moment, zone)
    return None


def _cell(value: Any, step: Convert | None) -> Any:
    return value if value is None or step is None else step(value)


def _moment(moment: datetime.datetime, zone: datetime.tzinfo | None) -> datetime.datetime:
    if moment.tzinfo is None:
        return moment.replace(tzinfo=zone)
    return moment if zone else moment.astimezone(datetime.UTC).replace(tzinfo=None)
