"""JSON bodies whose columns are inferred from the bodies.

Owns        kinds of JSON values -> Spark types, which members become new columns.
Must not know   how a table takes new columns (the caller's `grow`).

Whole numbers are bigint, others double, texts string, objects and lists string (as JSON text). The kinds of the first
batch decide: whole and other numbers mixed give double; else the kind most rows have. A column never changes its type:
a value of another kind makes its row bad.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

from rocketlake.spark.lake.bodies.parsed import REASON_CHARS_MAX, Grow, Parsed, build_columns, short
from rocketlake.spark.lake.table_schema import FIELD, body_field, clash

__all__ = ["InferredJson"]

Row = dict[str, Any]

_KINDS: dict[type, type[DataType]] = {
    bool: BooleanType,
    int: LongType,
    float: DoubleType,
    str: StringType,
    dict: StringType,
    list: StringType,
}
_NAME_CHARS_MAX = 200


class InferredJson:
    """Bodies that are JSON objects."""

    def __init__(self) -> None:
        self.fields = StructType([])
        self._decoder = msgspec.json.Decoder()

    def parse(self, bodies: Sequence[bytes | None], grow: Grow) -> Parsed:
        """Decode all, ask the table for the columns it lacks, then fill the columns it has."""
        bad: dict[int, str] = {}
        rows = [self._decode(number, body, bad) for number, body in enumerate(bodies)]
        columns = _columns(grow(StructType([])))
        new = _new_fields(rows, columns)
        if new:
            columns = _columns(grow(StructType(new)))
        fields = StructType([StructField(field.name, field.dataType) for _, field in columns])
        shape = _Shape(columns)
        values: list[Sequence[Any] | None] = []
        for number, row in enumerate(rows):
            cells = None
            if row is not None:
                cells = shape.cells(row)
                if cells is None:
                    bad[number] = shape.misfit(row)
            values.append(cells)
        return build_columns(values, fields, bad)

    def _decode(self, number: int, body: bytes | None, bad: dict[int, str]) -> Row | None:
        try:
            value = self._decoder.decode(body or b"")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            bad[number] = f"json: {short(error)}"
            return None
        if not isinstance(value, dict):
            bad[number] = "json: the body is no object"
            return None
        return value


def _columns(schema: StructType) -> list[tuple[str, StructField]]:
    """The members that have a column, with it."""
    return [(field.metadata[FIELD], field) for field in schema.fields if FIELD in (field.metadata or {})]


def _new_fields(rows: Sequence[Row | None], columns: Sequence[tuple[str, StructField]]) -> list[StructField]:
    known = {name for name, _ in columns}
    kinds: dict[str, Counter[type[DataType]]] = {}
    for row in rows:
        if row is not None and not row.keys() <= known:
            for name in row.keys() - known:
                if row[name] is not None:
                    kinds.setdefault(name, Counter())[_KINDS[type(row[name])]] += 1
    new: list[StructField] = []
    taken = StructType([field for _, field in columns])
    for name in sorted(kinds):
        field = body_field(name, _decide(kinds[name]))
        free = field.name not in taken.fieldNames() and clash(taken, field.name) is None
        if free and len(name) <= _NAME_CHARS_MAX:
            new.append(field)
            taken = StructType([*taken.fields, field])
    return new


def _decide(kinds: Counter[type[DataType]]) -> DataType:
    if set(kinds) == {LongType, DoubleType}:
        return DoubleType()
    # Ties are broken by name, so that a replay decides the same.
    return max(sorted(kinds, key=lambda kind: kind.__name__), key=lambda kind: kinds[kind])()


class _Shape:
    """The columns a row is put into. Rows are alike: each combination of kinds is checked once."""

    def __init__(self, columns: Sequence[tuple[str, StructField]]) -> None:
        self._columns = columns
        self._names = [name for name, _ in columns]
        self._known = set(self._names)
        self._fit: set[tuple[type, ...]] = set()

    def cells(self, row: Row) -> Sequence[Any] | None:
        """The row's values by column; None if one does not fit."""
        if not row.keys() <= self._known and any(row[name] is not None for name in row.keys() - self._known):
            return None
        get = row.get
        cells = [get(name) for name in self._names]
        kinds = tuple(map(type, cells))
        if kinds in self._fit:
            return cells
        if not all(
            value is None or _fits(value, f.dataType) for value, (_, f) in zip(cells, self._columns, strict=True)
        ):
            return None
        if dict in kinds or list in kinds:
            return [msgspec.json.encode(cell).decode() if isinstance(cell, dict | list) else cell for cell in cells]
        self._fit.add(kinds)
        return cells

    def misfit(self, row: Row) -> str:
        """Why a row has no cells."""
        for name in sorted(row.keys() - self._known):
            if row[name] is not None:
                text = f"field '{name}' can have no column of its own: too long, too many, or like another but for case"
                return text[:REASON_CHARS_MAX]
        for name, field in self._columns:
            value = row.get(name)
            if value is not None and not _fits(value, field.dataType):
                found = _KINDS[type(value)]().simpleString()
                return f"field '{name}' is {found}, the column {field.name} {field.dataType.simpleString()}"
        return "json: the body does not fit"


def _fits(value: Any, kind: DataType) -> bool:
    found = type(value)
    if isinstance(kind, DoubleType):
        return found is float or found is int
    return isinstance(kind, _KINDS[found])
