"""The result of a parser; Python values that become Arrow columns although some do not fit.

Owns        the parser's protocol, finding the rows whose values have the wrong type.
Must not know   a body format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.types import StructType

from rocketlake.spark.lake.table_schema import arrow

__all__ = ["REASON_CHARS_MAX", "BodyParser", "Grow", "Parsed", "build_columns", "short"]

REASON_CHARS_MAX = 500

Grow = Callable[[StructType], StructType]
"""Asks the table for more columns; answers with its schema, which may have given a column another type meanwhile."""


@dataclass(slots=True)
class Parsed:
    """Columns of the good rows, in order; the bad rows, and the reason for each; those that are passed over."""

    columns: dict[str, pa.Array]
    bad: dict[int, str] = field(default_factory=dict)
    skipped: AbstractSet[int] = frozenset()
    """Messages that say nothing about a row."""


class BodyParser(Protocol):
    """Made once per task and table."""

    fields: StructType
    """Columns known before any body is seen."""

    def parse(self, bodies: Sequence[bytes | None], grow: Grow) -> Parsed:
        """The columns of these bodies."""


def build_columns(rows: Sequence[Sequence[Any] | None], fields: StructType, bad: dict[int, str]) -> Parsed:
    """Columns of all rows that are not None; a row with a value that does not fit its type joins the bad ones."""
    schema = arrow(fields)
    while True:
        good = [row for row in rows if row is not None]
        cells = list(zip(*good, strict=True)) if good else [()] * len(schema)
        columns: dict[str, pa.Array] = {}
        for column, values in zip(schema, cells, strict=True):
            try:
                columns[column.name] = pa.array(values, column.type)
            except (pa.ArrowException, ValueError, TypeError, OverflowError):
                break
        else:
            return Parsed(columns, bad)
        rows = _without_misfits(rows, schema, bad)


def _without_misfits(
    rows: Sequence[Sequence[Any] | None], schema: pa.Schema, bad: dict[int, str]
) -> list[Sequence[Any] | None]:
    kept: list[Sequence[Any] | None] = []
    for number, row in enumerate(rows):
        reason = "" if row is None else _misfit(row, schema)
        if reason:
            bad[number] = reason
        kept.append(None if reason else row)
    return kept


def _misfit(row: Sequence[Any], schema: pa.Schema) -> str:
    for value, column in zip(row, schema, strict=True):
        try:
            pa.array([value], column.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            return f"field '{column.name}' does not fit {column.type}: {short(error)}"
    return ""


def short(error: BaseException) -> str:
    """The error's text on one line, not too long."""
    return " ".join(str(error).split())[:REASON_CHARS_MAX]
