"""Filters that Spark offers to a batch read, as column, sign and value.

Owns        the test whether a reader may have `pushFilters`; taking Spark's filter classes apart.
Must not know   the meaning of a column, which filters a format can use.

Spark fails a query whose reader has `pushFilters` while spark.sql.python.filterPushdown.enabled is off, its default,
and does not tell a reader whether it is on (tests/spark/test_facts.py). But Spark uses one worker program to plan with
filters and another to plan without, and the program's file stands in the call stack.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import datasource

__all__ = ["Comparison", "comparison_of", "epoch_micros", "is_pushdown_on"]

_PLANNER = "data_source_pushdown_filters.py"

_SIGNS: dict[type, str] = {
    datasource.EqualTo: "=",
    datasource.In: "in",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
}


def is_pushdown_on() -> bool:
    """To be called inside DataSource.reader(): true if Spark will call pushFilters of the reader."""
    frame = sys._getframe()
    while (caller := frame.f_back) is not None:
        if Path(caller.f_code.co_filename).name == _PLANNER:
            return True
        frame = caller
    return False


@dataclass(frozen=True)
class Comparison:
    """`column sign value`; the signs are =, in, <, <=, >, >=. Rows where the column is null do not match."""

    column: str
    sign: str
    values: tuple[Any, ...]
    """One value; any number of values for `in`."""


def comparison_of(filter: datasource.Filter) -> Comparison | None:
    """The comparison of one top-level column with values that are not null; None for any other filter."""
    sign = _SIGNS.get(type(filter))
    path: tuple[str, ...] = getattr(filter, "attribute", ())
    if sign is None or len(path) != 1:
        return None
    value = getattr(filter, "value", None)
    # In.value is declared a tuple and arrives as a list.
    values = tuple(value) if sign == "in" and isinstance(value, list | tuple) else (value,)
    if any(each is None for each in values):
        return None
    return Comparison(path[0], sign, values)


def epoch_micros(moment: datetime) -> int:
    """Microseconds since 1970, as a timestamp column holds them; filters bring times with a zone."""
    since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
