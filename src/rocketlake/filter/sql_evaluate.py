"""Decides SQL92 conditions on the properties of one message.

Owns        the outcome of each condition for one message.
Must not know   how an expression is written, where properties come from.

A condition becomes a test, an object that is ready to run; tests call each other without looking at types. A compiled
twin; see docs/internals/compiled_twins.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rocketlake.filter import sql_tree as tree
from rocketlake.filter.sql_numbers import INT_MAX, LONG_MAX, compare_doubles, read_double, read_integer

__all__ = ["Test", "decide", "evaluate", "matches", "test_of"]

_FALSE = tree.FALSE
_TRUE = tree.TRUE
_UNKNOWN = tree.UNKNOWN
_FAILED = tree.FAILED

_BELOW, _SAME, _ABOVE = 1, 2, 4
_ACCEPTED = {"<": _BELOW, "<=": _BELOW | _SAME, "=": _SAME, ">=": _ABOVE | _SAME, ">": _ABOVE}


class Test:
    """One condition, ready to be decided."""

    __test__ = False
    __slots__ = ()

    def decide(self, properties: dict[str, str]) -> int:
        """TRUE, FALSE, UNKNOWN or FAILED (sql_tree.py)."""
        raise NotImplementedError


class _Constant(Test):
    __slots__ = ("outcome",)

    def __init__(self, outcome: int) -> None:
        self.outcome = outcome

    def decide(self, properties: dict[str, str]) -> int:
        return self.outcome


class _Present(Test):
    __slots__ = ("name", "when_absent", "when_present")

    def __init__(self, name: str, when_present: int, when_absent: int) -> None:
        self.name = name
        self.when_present = when_present
        self.when_absent = when_absent

    def decide(self, properties: dict[str, str]) -> int:
        return self.when_absent if properties.get(self.name) is None else self.when_present


class _EqualsText(Test):
    __slots__ = ("name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    def decide(self, properties: dict[str, str]) -> int:
        value = properties.get(self.name)
        if value is None:
            return _UNKNOWN
        return _TRUE if value == self.text else _FALSE


class _IsTrueText(Test):
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def decide(self, properties: dict[str, str]) -> int:
        value = properties.get(self.name)
        if value is None:
            return _UNKNOWN
        return _TRUE if value.lower() == "true" else _FALSE


class _In(Test):
    __slots__ = ("name", "texts")

    def __init__(self, name: str, texts: frozenset[str]) -> None:
        self.name = name
        self.texts = texts

    def decide(self, properties: dict[str, str]) -> int:
        value = properties.get(self.name)
        if value is None:
            return _UNKNOWN
        return _TRUE if value in self.texts else _FALSE


class _CompareInteger(Test):
    __slots__ = ("accepted", "name", "number", "number_max")

    def __init__(self, name: str, accepted: int, number: int, number_max: int) -> None:
        self.name = name
        self.accepted = accepted
        self.number = number
        self.number_max = number_max

    def decide(self, properties: dict[str, str]) -> int:
        value = properties.get(self.name)
        if value is None:
            return _UNKNOWN
        found = read_integer(value, self.number_max)
        if found is None:
            return _FAILED
        number = found
        place = _BELOW if number < self.number else _SAME if number == self.number else _ABOVE
        return _TRUE if self.accepted & place else _FALSE


class _CompareDouble(Test):
    """The number is neither zero nor NaN; a NaN of the message is above it."""

    __slots__ = ("accepted", "name", "number")

    def __init__(self, name: str, accepted: int, number: float) -> None:
        self.name = name
        self.accepted = accepted
        self.number = number

    def decide(self, properties: dict[str, str]) -> int:
        value = properties.get(self.name)
        if value is None:
            return _UNKNOWN
        found = read_double(value)
        if found is None:
            return _FAILED
        number = found
        place = _BELOW if number < self.number else _SAME if number == self.number else _ABOVE
        return _TRUE if self.accepted & place else _FALSE


class _ComparePair(Test):
    __slots__ = ("accepted", "left", "right")

    def __init__(self, left: str, right: str, accepted: int) -> None:
        self.left = left
        self.right = right
        self.accepted = accepted

    def decide(self, properties: dict[str, str]) -> int:
        left, right = properties.get(self.left), properties.get(self.right)
        if left is None or right is None:
            return _UNKNOWN
        first, second = read_double(left), read_double(right)
        if first is None or second is None:
            return _FAILED
        order = compare_doubles(first, second)
        place = _BELOW if order < 0 else _SAME if order == 0 else _ABOVE
        return _TRUE if self.accepted & place else _FALSE


class _SameText(Test):
    __slots__ = ("left", "right")

    def __init__(self, left: str, right: str) -> None:
        self.left = left
        self.right = right

    def decide(self, properties: dict[str, str]) -> int:
        left, right = properties.get(self.left), properties.get(self.right)
        if left is None:
            return _TRUE if right is None else _UNKNOWN
        return _TRUE if left == right else _FALSE


class _TextMatch(Test):
    __slots__ = ("how", "name", "otherwise", "search", "when_found")

    def __init__(self, name: str, how: str, search: str, negated: bool) -> None:
        self.name = name
        self.how = "CSE".index(how[0])
        self.search = search
        self.when_found = _FALSE if negated else _TRUE
        self.otherwise = _TRUE if negated else _FALSE

    def decide(self, properties: dict[str, str]) -> int:
        value = properties.get(self.name)
        if value is None:
            return _FALSE
        if self.how == 0:
            found = self.search in value
        elif self.how == 1:
            found = value.startswith(self.search)
        else:
            found = value.endswith(self.search)
        return self.when_found if found else self.otherwise


class _Not(Test):
    __slots__ = ("inner",)

    def __init__(self, inner: Test) -> None:
        self.inner = inner

    def decide(self, properties: dict[str, str]) -> int:
        outcome = self.inner.decide(properties)
        return _TRUE if outcome == _FALSE else _FALSE if outcome == _TRUE else outcome


class _Join(Test):
    """AND and OR: the first `deciding` outcome ends it."""

    __slots__ = ("deciding", "inner", "otherwise")

    def __init__(self, inner: list[Test], deciding: int, otherwise: int) -> None:
        self.inner = inner
        self.deciding = deciding
        self.otherwise = otherwise

    def decide(self, properties: dict[str, str]) -> int:
        outcome_of_all = self.otherwise
        for test in self.inner:
            outcome = test.decide(properties)
            if outcome == self.deciding or outcome == _FAILED:
                return outcome
            if outcome == _UNKNOWN:
                outcome_of_all = _UNKNOWN
        return outcome_of_all


class _Equal(Test):
    __slots__ = ("left", "right")

    def __init__(self, left: Test, right: Test) -> None:
        self.left = left
        self.right = right

    def decide(self, properties: dict[str, str]) -> int:
        left, right = self.left.decide(properties), self.right.decide(properties)
        if left == _FAILED or right == _FAILED:
            return _FAILED
        if left == right:
            return _TRUE
        return _UNKNOWN if left == _UNKNOWN else _FALSE


class _Known(Test):
    __slots__ = ("inner", "when_known", "when_unknown")

    def __init__(self, inner: Test, when_known: int, when_unknown: int) -> None:
        self.inner = inner
        self.when_known = when_known
        self.when_unknown = when_unknown

    def decide(self, properties: dict[str, str]) -> int:
        outcome = self.inner.decide(properties)
        if outcome == _FAILED:
            return outcome
        return self.when_unknown if outcome == _UNKNOWN else self.when_known


class _BooleanIsText(Test):
    __slots__ = ("left", "name")

    def __init__(self, left: Test, name: str) -> None:
        self.left = left
        self.name = name

    def decide(self, properties: dict[str, str]) -> int:
        left, value = self.left.decide(properties), properties.get(self.name)
        if left == _FAILED:
            return left
        if left == _UNKNOWN:
            return _TRUE if value is None else _UNKNOWN
        return _FALSE if value is None else _FAILED


def test_of(condition: tree.Condition) -> Test:
    """The test of a condition."""
    match condition:
        case tree.Constant(outcome):
            return _Constant(outcome)
        case tree.Present(name):
            return _Present(name, _TRUE, _FALSE)
        case tree.BareProperty(name):
            return _Present(name, _FALSE, _UNKNOWN)
        case tree.EqualsText(name, text):
            return _EqualsText(name, text)
        case tree.IsTrueText(name):
            return _IsTrueText(name)
        case tree.In(name, texts):
            return _In(name, texts)
        case tree.CompareNumber(op, name, number, tree.NumberKind.DOUBLE):
            return _CompareDouble(name, _ACCEPTED[op], number)
        case tree.CompareNumber(op, name, number, kind):
            assert isinstance(number, int)
            number_max = INT_MAX if kind is tree.NumberKind.INT else LONG_MAX
            return _CompareInteger(name, _ACCEPTED[op], number, number_max)
        case tree.ComparePair(op, left, right):
            return _ComparePair(left, right, _ACCEPTED[op])
        case tree.SameText(left, right):
            return _SameText(left, right)
        case tree.TextMatch(how, name, search, negated):
            return _TextMatch(name, how, search, negated)
        case tree.Not(inner):
            return _Not(test_of(inner))
        case tree.And(parts):
            return _Join([test_of(part) for part in parts], _FALSE, _TRUE)
        case tree.Or(parts):
            return _Join([test_of(part) for part in parts], _TRUE, _FALSE)
        case tree.Equal(first, second):
            return _Equal(test_of(first), test_of(second))
        case tree.Known(inner, when_known, when_unknown):
            return _Known(test_of(inner), when_known, when_unknown)
        case tree.BooleanIsText(first, name):
            return _BooleanIsText(test_of(first), name)
    raise AssertionError(f"no test for {condition}")


@lru_cache(maxsize=128)
def _test_of_all(expression: tree.Expression) -> Test:
    return test_of(expression.condition)


def decide(expression: tree.Expression, properties: Mapping[str, str]) -> int:
    """TRUE, FALSE, UNKNOWN or FAILED."""
    known = properties if type(properties) is dict else dict(properties)
    return _test_of_all(expression).decide(known)


def evaluate(expression: tree.Expression, properties: Mapping[str, str]) -> bool | None:
    """True, False, or None: unknown, or a property could not be read as the number it is compared with."""
    outcome = decide(expression, properties)
    return None if outcome in (_UNKNOWN, _FAILED) else outcome == _TRUE


def matches(expression: tree.Expression, properties: Mapping[str, str]) -> bool:
    """True if the message passes the filter."""
    return decide(expression, properties) == _TRUE
