"""SQL92 conditions as a Spark SQL expression over a map column.

Owns        the translation of a condition into a Column.
Must not know   Arrow, where rows come from.

A condition becomes two columns, as in to_arrow.py: its value (null: unknown), and whether it failed, or None where the
condition cannot fail. No column is used twice below another, so the plan grows with the expression and not with 2 to
the power of its depth. Works in classic Spark and in Spark Connect; no cast here throws, in ANSI mode neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from rocketlake.filter import sql_tree as tree
from rocketlake.filter.sql_numbers import NUMBER_CHARACTERS_MAX

__all__ = ["spark_column"]

_VALUES = {tree.TRUE: True, tree.FALSE: False, tree.UNKNOWN: None, tree.FAILED: None}
_TYPES = {tree.NumberKind.INT: "int", tree.NumberKind.LONG: "bigint", tree.NumberKind.DOUBLE: "double"}

# Spark's casts read what Java reads, and more: blanks around an integer, "inf" and "nan" in any case.
_INTEGER = r"\A[+-]?[0-9]+\z"
_DOUBLE = r"\A[\x00-\x20]*[+-]?(?:[0-9.]|NaN|Infinity)"

_FALSE, _TRUE, _UNKNOWN = range(3)
_EQUAL_TABLE = {
    (_FALSE, _FALSE): True,
    (_FALSE, _TRUE): False,
    (_FALSE, _UNKNOWN): False,
    (_TRUE, _FALSE): False,
    (_TRUE, _TRUE): True,
    (_TRUE, _UNKNOWN): False,
    (_UNKNOWN, _FALSE): None,
    (_UNKNOWN, _TRUE): None,
    (_UNKNOWN, _UNKNOWN): True,
}


def spark_column(expression: tree.Expression, properties: str | Column = "properties") -> Column:
    """A boolean column: true where the row matches, null for unknown and for a property that had to be a number.

    `properties`: a map<string,string> column, or its name. `frame.filter(column)` keeps what a broker would send.
    """
    value, failed = _Translation(F.col(properties) if isinstance(properties, str) else properties).of(
        expression.condition
    )
    return value if failed is None else F.when(~failed, value)


class _Outcome(NamedTuple):
    value: Column
    failed: Column | None = None


class _Translation:
    """Into columns over one map column."""

    def __init__(self, properties: Column) -> None:
        self._properties = properties

    def of(self, condition: tree.Condition) -> _Outcome:
        match condition:
            case tree.Constant(outcome):
                return _constant(outcome)
            case tree.Present(name):
                return _Outcome(self._text(name).isNotNull())
            case tree.BareProperty(name):
                return _Outcome(F.when(self._text(name).isNotNull(), F.lit(False)))
            case tree.EqualsText(name, text):
                return _Outcome(self._text(name) == F.lit(text))
            case tree.IsTrueText(name):
                return _Outcome(F.lower(self._text(name)) == F.lit("true"))
            case tree.In(name, texts):
                return _Outcome(self._text(name).isin(sorted(texts)))
            case tree.TextMatch(how, name, search, negated):
                return _Outcome(_text_match(how, self._text(name), search, negated))
            case tree.SameText(left, right):
                return _Outcome(_same(self._text(left), self._text(right)))
            case tree.CompareNumber(op, name, number, kind):
                column = self._text(name)
                found = _number(column, kind)
                return _Outcome(_compare(op, found, F.lit(number)), column.isNotNull() & found.isNull())
            case tree.ComparePair(op, left, right):
                return _compare_pair(op, self._text(left), self._text(right))
            case tree.Not(inner):
                value, failed = self.of(inner)
                return _Outcome(~value, failed)
            case tree.And(parts):
                return self._join([self.of(part) for part in parts], is_and=True)
            case tree.Or(parts):
                return self._join([self.of(part) for part in parts], is_and=False)
            case tree.Equal(first_condition, second_condition):
                left_outcome, right_outcome = self.of(first_condition), self.of(second_condition)
                value = _equal(left_outcome.value, right_outcome.value)
                return _Outcome(value, _either(left_outcome.failed, right_outcome.failed))
            case tree.Known(inner, when_known, when_unknown):
                return _known(self.of(inner), when_known, when_unknown)
            case tree.BooleanIsText(first_condition, name):
                return _boolean_is_text(self.of(first_condition), self._text(name).isNotNull())
        raise AssertionError(f"no translation of {condition}")

    def _text(self, name: str) -> Column:
        return self._properties[F.lit(name)]

    def _join(self, parts: Sequence[_Outcome], *, is_and: bool) -> _Outcome:
        """AND or OR of all, as a balanced tree: Spark's optimizer walks plans by recursion."""
        if len(parts) == 1:
            return parts[0]
        left = self._join(parts[: len(parts) // 2], is_and=is_and)
        right = self._join(parts[len(parts) // 2 :], is_and=is_and)
        failed = left.failed
        if right.failed is not None:
            is_open = F.coalesce(left.value, F.lit(True)) if is_and else ~F.coalesce(left.value, F.lit(False))
            failed = _either(failed, is_open & right.failed)
        return _Outcome(left.value & right.value if is_and else left.value | right.value, failed)


def _constant(outcome: int) -> _Outcome:
    value = F.lit(_VALUES[outcome]).cast("boolean")
    return _Outcome(value, F.lit(True) if outcome == tree.FAILED else None)


def _either(left: Column | None, right: Column | None) -> Column | None:
    if left is None or right is None:
        return right if left is None else left
    return left | right


def _same(left: Column, right: Column) -> Column:
    return F.when(left.isNull(), F.when(right.isNull(), F.lit(True))).otherwise(left.eqNullSafe(right))


def _text_match(how: str, text: Column, search: str, negated: bool) -> Column:
    wanted = F.lit(search)
    found = {"CONTAINS": text.contains, "STARTSWITH": text.startswith, "ENDSWITH": text.endswith}[how](wanted)
    return F.coalesce(~found if negated else found, F.lit(False))


def _number(text: Column, kind: tree.NumberKind) -> Column:
    """The number; null where there is none."""
    pattern = _DOUBLE if kind is tree.NumberKind.DOUBLE else _INTEGER
    is_one = text.rlike(pattern) & (F.length(text) <= F.lit(NUMBER_CHARACTERS_MAX))
    return F.when(is_one, text).try_cast(_TYPES[kind])


def _compare(op: str, left: Column, right: Column) -> Column:
    return {"=": left == right, "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op]


def _compare_pair(op: str, left: Column, right: Column) -> _Outcome:
    """In Java's order, which is Spark's but for -0.0: it is below 0.0."""
    first, second = _number(left, tree.NumberKind.DOUBLE), _number(right, tree.NumberKind.DOUBLE)
    failed = left.isNotNull() & right.isNotNull() & (first.isNull() | second.isNull())
    if op in (">", "<="):
        first, second = second, first
    below = (first < second) | ((first == second) & (_is_minus_zero(first) & ~_is_minus_zero(second)))
    return _Outcome(below if op in ("<", ">") else ~below, failed)


def _is_minus_zero(number: Column) -> Column:
    return F.coalesce(number.cast("string") == F.lit("-0.0"), F.lit(False))


def _equal(left: Column, right: Column) -> Column:
    """By a table, which looks at each side once."""
    place = _code(left) * F.lit(3) + _code(right)
    return F.get(F.array(*(F.lit(value).cast("boolean") for _, value in sorted(_EQUAL_TABLE.items()))), place)


def _code(value: Column) -> Column:
    return F.coalesce(value.cast("int"), F.lit(_UNKNOWN))


def _known(inner: _Outcome, when_known: int, when_unknown: int) -> _Outcome:
    unknown = inner.value.isNull()
    failed = inner.failed
    if when_known == tree.FAILED:
        failed = _either(failed, ~unknown)
    return _Outcome(F.when(unknown, _constant(when_unknown).value).otherwise(_constant(when_known).value), failed)


def _boolean_is_text(left: _Outcome, present: Column) -> _Outcome:
    known = left.value.isNotNull()
    return _Outcome(F.when(~present, ~known), _either(left.failed, known & present))
