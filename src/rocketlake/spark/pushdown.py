"""Filters that Spark offers to a batch read, in a form that can be reasoned about.

Owns        when a reader may have `pushFilters` at all; taking Spark's filter classes apart.
Must not know   what a column means to its format, which filters a format can use.

Spark fails a query whose reader has `pushFilters` while spark.sql.python.filterPushdown.enabled is off, which it is by
default, and tells a reader nowhere whether it is on (reference spark.md 1.2 fact 4). But the planner that will offer
filters is another program than the one that will not, and its file stands in the call stack.
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
    """Asked inside DataSource.reader(): will Spark call pushFilters of what it returns?"""
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
    """One; any number for `in`."""


def comparison_of(filter: datasource.Filter) -> Comparison | None:
    """A filter of one top-level column against values that are not null; None for any other."""
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
