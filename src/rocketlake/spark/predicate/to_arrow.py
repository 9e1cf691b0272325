"""SQL92 conditions on an Arrow map column.

Owns        the translation of a condition into Arrow kernels.
Must not know   Spark.

A condition becomes two arrays: its value (null: unknown), and which rows failed, or None where none can. The value of a
failed row is not used. The rules of a failure, and of parts that are never reached: filter/sql_tree.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketlake.filter import sql_tree as tree
from rocketlake.filter.sql_numbers import INT_MAX, LONG_MAX, read_double, read_integer

__all__ = ["arrow_mask"]

_BOOLEAN = pa.bool_()
_VALUES = {tree.TRUE: True, tree.FALSE: False, tree.UNKNOWN: None, tree.FAILED: None}
_COMPARE = {"=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
_MATCH = {"CONTAINS": pc.match_substring, "STARTSWITH": pc.starts_with, "ENDSWITH": pc.ends_with}

# Texts that Arrow's casts read exactly as Java does; other texts are read one by one.
_PLAIN_INTEGER = "^-?[0-9]{1,18}$"
_PLAIN_DOUBLE = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"


def arrow_mask(expression: tree.Expression, properties: pa.MapArray) -> pa.BooleanArray:
    """True or false for each row; null for unknown, and for a property that had to be a number.

    `properties`: map of string to string, one map a row. `table.filter(mask)` keeps what the broker would send.
    """
    outcome = _Batch(properties).decide(expression.condition)
    if outcome.failed is None:
        return outcome.value
    return pc.if_else(outcome.failed, pa.scalar(None, _BOOLEAN), outcome.value)


class _Outcome(NamedTuple):
    value: pa.BooleanArray
    failed: pa.BooleanArray | None = None


class _Batch:
    """The properties of some rows; each property is looked up once, and read as a number once a type."""

    def __init__(self, properties: pa.MapArray) -> None:
        self._properties = properties
        self._rows = len(properties)
        self._texts: dict[str, pa.StringArray] = {}
        self._numbers: dict[tuple[str, tree.NumberKind], _Outcome] = {}

    def decide(self, condition: tree.Condition) -> _Outcome:
        match condition:
            case tree.Constant(outcome):
                return self._constant(outcome)
            case tree.Present(name):
                return _Outcome(pc.is_valid(self._text(name)))
            case tree.BareProperty(name):
                return _Outcome(pc.if_else(pc.is_valid(self._text(name)), False, pa.scalar(None, _BOOLEAN)))
            case tree.EqualsText(name, text):
                return _Outcome(pc.equal(self._text(name), pa.scalar(text)))
            case tree.IsTrueText(name):
                return _Outcome(pc.equal(pc.utf8_lower(self._text(name)), pa.scalar("true")))
            case tree.In(name, texts):
                found = pc.is_in(self._text(name), value_set=pa.array(sorted(texts), pa.string()))
                return _Outcome(pc.if_else(pc.is_valid(self._text(name)), found, pa.scalar(None, _BOOLEAN)))
            case tree.TextMatch(how, name, search, negated):
                found = _MATCH[how](self._text(name), search)
                return _Outcome(pc.fill_null(pc.invert(found) if negated else found, False))
            case tree.SameText(left, right):
                return _Outcome(_equal(self._text(left), self._text(right)))
            case tree.CompareNumber(op, name, number, kind):
                found, failed = self._number(name, kind)
                wanted = pa.array([number], _TYPES[kind])
                if kind is tree.NumberKind.DOUBLE:
                    found, wanted = _in_javas_order(found), _in_javas_order(wanted)
                return _Outcome(_COMPARE[op](found, wanted[0]), failed)
            case tree.ComparePair(op, left, right):
                return self._compare_pair(op, left, right)
            case tree.Not(inner):
                value, failed = self.decide(inner)
                return _Outcome(pc.invert(value), failed)
            case tree.And(parts):
                return self._join(parts, pc.and_kleene, lambda value: pc.fill_null(value, True))
            case tree.Or(parts):
                return self._join(parts, pc.or_kleene, lambda value: pc.invert(pc.fill_null(value, False)))
            case tree.Equal(first, second):
                (left_value, left_failed), (right_value, right_failed) = self.decide(first), self.decide(second)
                return _Outcome(_equal(left_value, right_value), _either(left_failed, right_failed))
            case tree.Known(inner, when_known, when_unknown):
                return self._known(self.decide(inner), self._constant(when_known), self._constant(when_unknown))
            case tree.BooleanIsText(first, name):
                return self._boolean_is_text(self.decide(first), pc.is_valid(self._text(name)))
        raise AssertionError(f"no translation of {condition}")

    def _constant(self, outcome: int) -> _Outcome:
        value = pa.repeat(pa.scalar(_VALUES[outcome], _BOOLEAN), self._rows)
        return _Outcome(value, pa.repeat(True, self._rows) if outcome == tree.FAILED else None)

    def _text(self, name: str) -> pa.StringArray:
        texts = self._texts.get(name)
        if texts is None:
            # The last of equal names counts, as in the map a broker makes of a message's properties.
            texts = self._texts[name] = pc.map_lookup(self._properties, pa.scalar(name), "last").cast(pa.string())
        return texts

    def _number(self, name: str, kind: tree.NumberKind) -> _Outcome:
        known = self._numbers.get((name, kind))
        if known is None:
            known = self._numbers[name, kind] = _read_numbers(self._text(name), kind)
        return known

    def _compare_pair(self, op: str, left: str, right: str) -> _Outcome:
        first, first_failed = self._number(left, tree.NumberKind.DOUBLE)
        second, second_failed = self._number(right, tree.NumberKind.DOUBLE)
        value = _COMPARE[op](_in_javas_order(first), _in_javas_order(second))
        failed = _either(first_failed, second_failed)
        if failed is not None:  # where one side is absent the other is not read
            both = pc.and_(pc.is_valid(self._text(left)), pc.is_valid(self._text(right)))
            failed = pc.and_(failed, both)
        return _Outcome(value, failed)

    def _join(
        self, parts: tuple[tree.Condition, ...], join: Callable[..., Any], is_open: Callable[[Any], Any]
    ) -> _Outcome:
        """AND and OR. `is_open`: the rows that the value so far does not decide; only they reach the next part."""
        value, failed = self.decide(parts[0])
        for part in parts[1:]:
            part_value, part_failed = self.decide(part)
            if part_failed is not None:
                failed = _either(failed, pc.and_(part_failed, is_open(value)))
            value = join(value, part_value)
        return _Outcome(value, failed)

    def _known(self, inner: _Outcome, known: _Outcome, unknown: _Outcome) -> _Outcome:
        is_known = pc.is_valid(inner.value)
        failed = inner.failed
        if known.failed is not None:
            failed = _either(failed, is_known)
        return _Outcome(pc.if_else(is_known, known.value, unknown.value), failed)

    def _boolean_is_text(self, left: _Outcome, present: pa.BooleanArray) -> _Outcome:
        is_known = pc.is_valid(left.value)
        value = pc.if_else(present, pa.scalar(None, _BOOLEAN), pc.invert(is_known))
        return _Outcome(value, _either(left.failed, pc.and_(is_known, present)))


_TYPES = {
    tree.NumberKind.INT: pa.int64(),
    tree.NumberKind.LONG: pa.int64(),
    tree.NumberKind.DOUBLE: pa.float64(),
}


def _either(left: pa.BooleanArray | None, right: pa.BooleanArray | None) -> pa.BooleanArray | None:
    if left is None or right is None:
        return right if left is None else left
    return pc.or_(left, right)


def _equal(left: pa.Array, right: pa.Array) -> pa.BooleanArray:
    """True where both are null, null where only the left is, false where only the right is."""
    if_left_is_null = pc.if_else(pc.is_null(right), True, pa.scalar(None, _BOOLEAN))
    return pc.if_else(pc.is_null(left), if_left_is_null, pc.fill_null(pc.equal(left, right), False))


def _read_numbers(texts: pa.StringArray, kind: tree.NumberKind) -> _Outcome:
    """The numbers, null where there is none; and the rows whose text is no number."""
    pattern = _PLAIN_DOUBLE if kind is tree.NumberKind.DOUBLE else _PLAIN_INTEGER
    plain = pc.match_substring_regex(texts, pattern)
    numbers = pc.if_else(plain, texts, pa.scalar(None, pa.string())).cast(_TYPES[kind])
    odd = pc.fill_null(pc.invert(plain), False)
    if odd.true_count:
        read = _reader(kind)
        values = pa.array([read(text) for text in texts.filter(odd).to_pylist()], _TYPES[kind])
        numbers = pc.replace_with_mask(numbers, odd, values)
    if kind is tree.NumberKind.INT:
        fits = pc.and_(pc.less_equal(numbers, INT_MAX), pc.greater_equal(numbers, -INT_MAX - 1))
        numbers = pc.if_else(fits, numbers, pa.scalar(None, _TYPES[kind]))
    elif not odd.true_count:
        return _Outcome(numbers)
    return _Outcome(numbers, pc.and_(pc.is_valid(texts), pc.is_null(numbers)))


def _reader(kind: tree.NumberKind) -> Callable[[str], int | float | None]:
    if kind is tree.NumberKind.DOUBLE:
        return read_double
    number_max = INT_MAX if kind is tree.NumberKind.INT else LONG_MAX
    return lambda text: read_integer(text, number_max)


def _in_javas_order(numbers: pa.DoubleArray) -> pa.Int64Array:
    """Integers in the order that Java gives to these doubles: -0.0 below 0.0, NaN above all."""
    nulls = pc.is_null(numbers).to_numpy(zero_copy_only=False)
    values = pc.fill_null(numbers, 0.0).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return pa.array(np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits), mask=nulls)
