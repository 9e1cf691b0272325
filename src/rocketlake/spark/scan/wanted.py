"""The messages that a read wants: comparisons pushed by Spark, and options, as one condition judged exactly.

Owns        the comparisons that can be judged here, judging them on many records at once.
Must not know   files, how the records were found.

A record is a row only if this condition holds for it, however the record was found: queues and key index only save
work.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.model import property_names
from rocketlake.spark.columns import Records, are_held
from rocketlake.spark.predicate.to_arrow import arrow_mask
from rocketlake.spark.pushdown import Comparison, epoch_micros
from rocketlake.spark.record_form import Bools, Ints
from rocketlake.spark.scan.options import ScanOptions

__all__ = ["Wanted", "exact", "wanted_of"]

_NUMBERS: dict[str, Callable[[Records], Any]] = {
    "queueId": lambda records: records.queue_ids,
    "queueOffset": lambda records: records.queue_offsets,
    "commitLogOffset": lambda records: records.physical_offsets,
    "storeTimestamp": lambda records: records.store_ms * 1000,
}
_TEXTS: dict[str, Callable[[Records], pa.Array]] = {
    "topic": lambda records: records.topics,
    "msgId": lambda records: records.message_ids(property_names.UNIQUE_KEY),
    "offsetMsgId": lambda records: records.message_ids(""),
    "keys": lambda records: records.property_column(property_names.KEYS),
    "tags": lambda records: records.property_column(property_names.TAGS),
}
_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LONG_MAX = 2**63 - 1


@dataclass(frozen=True)
class Wanted:
    """All of these must hold."""

    comparisons: tuple[Comparison, ...] = ()
    """Numbers are int, times epoch microseconds, texts str."""
    sql92: str = ""

    def also(self, comparisons: Iterable[Comparison]) -> Wanted:
        """This condition and more comparisons."""
        return Wanted((*self.comparisons, *comparisons), self.sql92)

    @property
    def is_all(self) -> bool:
        """True if every message is wanted."""
        return not self.comparisons and not self.sql92

    def values(self, column: str) -> frozenset[Any] | None:
        """The only values that this column may have; None without such a bound."""
        found: frozenset[Any] | None = None
        for each in self.comparisons:
            if each.column == column and each.sign in ("=", "in"):
                found = frozenset(each.values) if found is None else found & frozenset(each.values)
        return found

    def bounds(self, column: str) -> tuple[int, int]:
        """(least, greatest) number that this column may have."""
        low, high = -_LONG_MAX - 1, _LONG_MAX
        for each in self.comparisons:
            if each.column != column:
                continue
            if each.sign in ("=", "in") and each.values:
                low, high = max(low, min(each.values)), min(high, max(each.values))
            elif each.sign in (">", ">="):
                low = max(low, each.values[0] + (each.sign == ">"))
            elif each.sign in ("<", "<="):
                high = min(high, each.values[0] - (each.sign == "<"))
        return low, high

    def rows(self, records: Records) -> Ints | None:
        """Numbers of the wanted records; None for all of them."""
        mask: Bools | None = None
        for each in self.comparisons:
            found = _judge(each, records)
            mask = found if mask is None else mask & found
        if self.sql92 and (mask is None or bool(mask.any())):
            held = arrow_mask(parse_sql92(self.sql92), records.maps())
            true = np.asarray(pc.fill_null(held, False))
            mask = true if mask is None else mask & true
        return None if mask is None or bool(mask.all()) else np.flatnonzero(mask)


def _judge(each: Comparison, records: Records) -> Bools:
    if each.column in _NUMBERS:
        numbers = _NUMBERS[each.column](records)
        found = np.isin(numbers, each.values) if each.sign == "in" else _SIGNS[each.sign](numbers, each.values[0])
        if each.column == "storeTimestamp":
            found &= are_held(records.store_ms)  # others are null
    else:
        texts = _TEXTS[each.column](records)
        found = np.asarray(pc.is_in(texts, value_set=pa.array(each.values, pa.string())))
    return np.asarray(found, dtype=np.bool_)


def wanted_of(options: ScanOptions) -> Wanted:
    """The condition of the options."""
    found: list[Comparison] = []
    if options.topics:
        found.append(Comparison("topic", "in", options.topics))
    if options.tags:
        found.append(Comparison("tags", "in", tuple(sorted(options.tags))))
    if options.starting_ms is not None:
        found.append(Comparison("storeTimestamp", ">=", (options.starting_ms * 1000,)))
    if options.ending_ms is not None:
        found.append(Comparison("storeTimestamp", "<", (options.ending_ms * 1000,)))
    return Wanted(tuple(found), options.sql92)


def exact(comparison: Comparison) -> Comparison | None:
    """A comparison as `Wanted` judges it; None if it cannot be judged here exactly as Spark does."""
    values = [_exact_value(comparison, value) for value in comparison.values]
    if any(value is None or (isinstance(value, int) and not -_LONG_MAX <= value < _LONG_MAX) for value in values):
        return None
    return Comparison(comparison.column, comparison.sign, tuple(values))


def _exact_value(comparison: Comparison, value: Any) -> int | str | None:
    if comparison.column == "storeTimestamp":
        return epoch_micros(value) if isinstance(value, datetime) and value.tzinfo is not None else None
    if comparison.column in _NUMBERS:
        return value if type(value) is int else None
    is_equality = comparison.column in _TEXTS and comparison.sign in ("=", "in")
    return value if is_equality and isinstance(value, str) else None
