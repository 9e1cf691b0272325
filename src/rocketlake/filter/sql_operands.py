"""The condition that two sides of a comparison make: the rules of types, settled while the expression is read.

Owns        the kinds of operand, which pairs are refused, which condition a pair becomes.
Must not know   tokens.

Source: Apache's ComparisonExpression, UnaryExpression, LogicExpression. A side is a property (a string, or absent), a
literal, a condition, or nothing: a minus before a side that is no number leaves no value. Each side's type is known
here, so the conditions need no types any more, and a condition without a property is decided at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeGuard

from rocketlake.filter.sql_numbers import INT_MAX, LONG_MAX, compare_doubles, read_double, read_integer
from rocketlake.filter.sql_tree import (
    FAILED,
    FALSE,
    TRUE,
    UNKNOWN,
    And,
    BareProperty,
    BooleanIsText,
    CompareNumber,
    ComparePair,
    Condition,
    Constant,
    Equal,
    EqualsText,
    In,
    IsTrueText,
    Known,
    Not,
    NumberKind,
    Or,
    Present,
    SameText,
    TextMatch,
)

__all__ = [
    "ConditionSide",
    "Literal",
    "NothingSide",
    "PropertySide",
    "Refused",
    "Side",
    "as_condition",
    "between",
    "equal",
    "in_texts",
    "is_null",
    "minus",
    "negation",
    "not_between",
    "order",
    "text_match",
]

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Refused(Exception):
    """This pair cannot be compared; `offset` is where the wrong side begins."""

    def __init__(self, what: str, offset: int, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.offset = offset
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an operator: where it begins, and how many conditions stand inside each other in it."""

    offset: int
    height: int = 0


@dataclass(frozen=True, slots=True)
class PropertySide(Side):
    """A property: a string, or absent."""

    name: str = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Literal(Side):
    """A written value; None is NULL. `kind` of numbers only. `signed`: a minus stood before it; fewer checks then."""

    value: str | int | float | bool | None = None
    kind: NumberKind | None = None
    signed: bool = False


@dataclass(frozen=True, slots=True)
class ConditionSide(Side):
    """A condition used as a value."""

    condition: Condition = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class NothingSide(Side):
    """Never a value; `inner` is decided nevertheless, since it may fail."""

    inner: Condition | None = None


def as_condition(side: Side) -> Condition:
    """The side where a condition must stand."""
    match side:
        case ConditionSide(condition=condition):
            return condition
        case PropertySide(name=name):
            return BareProperty(name)
        case Literal(value=value) if value is None or isinstance(value, bool):
            return _constant(value)
    raise Refused("this is a value, and a condition must stand here", side.offset, "compare it with something")


def negation(condition: Condition) -> Condition:
    """NOT."""
    return condition.inner if isinstance(condition, Not) else Not(condition)


def minus(side: Side) -> Side:
    """The side with a minus before it."""
    match side:
        case Literal(kind=kind, value=value) if kind is not None:
            assert isinstance(value, int | float)
            return replace(side, value=-value, signed=True)
        case ConditionSide(condition=condition):
            return NothingSide(side.offset, side.height, condition)
        case NothingSide():
            return side
    return NothingSide(side.offset, side.height)


def equal(left: Side, right: Side) -> Condition:
    """left = right."""
    for side in (left, right):
        if isinstance(side, Literal) and side.value is None:
            raise Refused("NULL cannot be compared", side.offset, "write IS NULL or IS NOT NULL")
    if _is_boolean(left) and isinstance(right, Literal) and not (_is_boolean(right) or right.signed):
        raise Refused("a boolean cannot be compared with this", right.offset, "compare it with TRUE or FALSE")
    return _checked(_equal(_boolean_as_condition(left), _boolean_as_condition(right)), left, right)


def _is_boolean(side: Side) -> bool:
    return isinstance(side, Literal) and isinstance(side.value, bool)


def _equal(left: Side, right: Side) -> Condition:
    match left, right:
        case NothingSide(), _:
            return _nothing_equals(right)
        case _, NothingSide():
            return _equals_nothing(left)
        case PropertySide(name=name), PropertySide(name=other):
            return SameText(name, other)
        case PropertySide(name=name), Literal():
            return _equals_literal(name, right)
        case Literal(), PropertySide(name=name):
            return And((Present(name), _equals_literal(name, left)))
        case PropertySide(name=name), ConditionSide(condition=condition):
            return _equal_conditions(IsTrueText(name), condition)
        case ConditionSide(condition=condition), PropertySide(name=name):
            return BooleanIsText(condition, name)
        case ConditionSide(condition=condition), ConditionSide(condition=other_condition):
            return _equal_conditions(condition, other_condition)
        case Literal(value=value), ConditionSide(condition=condition):
            if isinstance(value, str):
                return Equal(_constant(value.lower() == "true"), condition)
            return Known(condition, FALSE, FALSE)
        case ConditionSide(condition=condition), Literal(value=value):
            return Known(condition, FAILED if isinstance(value, str) else FALSE, UNKNOWN)
        case Literal(), Literal():
            return Constant(_literals_equal(left, right))
    raise AssertionError(f"no rule for {left} = {right}")


def _nothing_equals(right: Side) -> Condition:
    match right:
        case PropertySide(name=name):
            return Or((Not(Present(name)), Constant(UNKNOWN)))
        case ConditionSide(condition=condition):
            return Known(condition, UNKNOWN, TRUE)
        case NothingSide():
            return Constant(TRUE)
    return Constant(UNKNOWN)


def _equals_nothing(left: Side) -> Condition:
    match left:
        case PropertySide(name=name):
            return Not(Present(name))
        case ConditionSide(condition=condition):
            return Known(condition, FALSE, TRUE)
    return Constant(FALSE)


def _equals_literal(name: str, literal: Literal) -> Condition:
    if literal.kind is None:
        assert isinstance(literal.value, str)
        return EqualsText(name, literal.value)
    assert isinstance(literal.value, int | float)
    return CompareNumber("=", name, literal.value, literal.kind)


def _equal_conditions(left: Condition, right: Condition) -> Condition:
    if right == Constant(TRUE):
        return left
    return Not(left) if right == Constant(FALSE) else Equal(left, right)


def _literals_equal(left: Literal, right: Literal) -> int:
    if left.kind is None and right.kind is None:
        return TRUE if left.value == right.value else FALSE
    outcome = _compare_literals(left, right)
    if outcome is None:
        return FAILED
    return TRUE if outcome == 0 else FALSE


def _compare_literals(left: Literal, right: Literal) -> int | None:
    """-1, 0 or 1; None if a text is no number of the other's kind. One of them is a number."""
    values = [_as_number(left, right.kind), _as_number(right, left.kind)]
    first, second = values
    if first is None or second is None:
        return None
    if isinstance(first, float) or isinstance(second, float):
        return compare_doubles(float(first), float(second))
    return (first > second) - (first < second)


def _as_number(literal: Literal, kind: NumberKind | None) -> int | float | None:
    if isinstance(literal.value, str):
        if kind is NumberKind.DOUBLE:
            return read_double(literal.value)
        return read_integer(literal.value, INT_MAX if kind is NumberKind.INT else LONG_MAX)
    assert isinstance(literal.value, int | float)
    return literal.value


def order(op: str, left: Side, right: Side) -> Condition:
    """left `op` right, op one of < <= > >=."""
    for side in (left, right):
        if isinstance(side, ConditionSide) or (isinstance(side, Literal) and side.kind is None):
            cure = "write NOT (a > 5), with parentheses" if isinstance(side, ConditionSide) else "strings have = and <>"
            raise Refused(f"only numbers and properties can be compared by {op}", side.offset, cure)
    match left, right:
        case NothingSide(), _:
            return _checked(Constant(UNKNOWN), left)
        case PropertySide(name=name), NothingSide(inner=None):
            return Constant(UNKNOWN)
        case PropertySide(name=name), NothingSide(inner=inner):
            assert inner is not None
            # The right side is decided only if the left one is there.
            return Known(And((Present(name), Known(inner, TRUE, TRUE))), UNKNOWN, UNKNOWN)
        case _, NothingSide():
            return _checked(Constant(UNKNOWN), right)
        case PropertySide(name=name), PropertySide(name=other):
            return ComparePair(op, name, other)
        case PropertySide(name=name), Literal(value=int() | float() as number, kind=NumberKind() as kind):
            return CompareNumber(op, name, number, kind)
        case Literal(value=int() | float() as number, kind=NumberKind() as kind), PropertySide(name=name):
            return CompareNumber(_FLIPPED[op], name, number, kind)
        case Literal(), Literal():
            outcome = _compare_literals(left, right)
            assert outcome is not None
            fits = {"<": outcome < 0, "<=": outcome <= 0, ">": outcome > 0, ">=": outcome >= 0}[op]
            return _constant(fits)
    raise AssertionError(f"no rule for {left} {op} {right}")


def between(value: Side, low: Side, high: Side) -> Condition:
    """value BETWEEN low AND high."""
    if _is_plain_number(low) and _is_plain_number(high) and _compare_literals(high, low) == -1:
        raise Refused("the lower bound of BETWEEN is above the upper one", low.offset, "write the lower one first")
    return _both_bounds(And, order(">=", value, low), order("<=", value, high), value)


def _is_plain_number(side: Side) -> TypeGuard[Literal]:
    return isinstance(side, Literal) and side.kind is not None and not side.signed


def not_between(value: Side, low: Side, high: Side) -> Condition:
    """value NOT BETWEEN low AND high."""
    return _both_bounds(Or, order("<", value, low), order(">", value, high), value)


def _both_bounds(join: type[And | Or], first: Condition, second: Condition, value: Side) -> Condition:
    # Without a value both bounds give the same condition. One is enough: two at each level would take 2**depth steps.
    return first if isinstance(value, NothingSide) else join((first, second))


def in_texts(left: Side, texts: list[str]) -> Condition:
    """left IN (texts)."""
    if not isinstance(left, PropertySide):
        raise Refused("only a property can stand before IN", left.offset, "write property IN ('a', 'b')")
    return In(left.name, frozenset(texts))


def text_match(how: str, left: Side, search: str, *, negated: bool) -> Condition:
    """left CONTAINS search; `how` may also be STARTSWITH or ENDSWITH."""
    if not search:
        return Constant(FALSE)
    match left:
        case PropertySide(name=name):
            return TextMatch(how, name, search, negated)
        case ConditionSide(condition=condition):
            return Known(condition, FALSE, FALSE)
        case Literal(value=str() as text):
            hit = {"CONTAINS": search in text, "STARTSWITH": text.startswith(search), "ENDSWITH": text.endswith(search)}
            return _constant(hit[how] != negated)
    return _checked(Constant(FALSE), left)


def is_null(left: Side) -> Condition:
    """left IS NULL."""
    match left:
        case PropertySide(name=name):
            return Not(Present(name))
        case ConditionSide(condition=condition):
            return Known(condition, FALSE, TRUE)
        case Literal(value=value):
            return _constant(value is None)
    return _checked(Constant(TRUE), left)


def _boolean_as_condition(side: Side) -> Side:
    if isinstance(side, Literal) and isinstance(side.value, bool):
        return ConditionSide(side.offset, condition=_constant(side.value))
    return side


def _constant(value: bool | None) -> Constant:
    return Constant(UNKNOWN if value is None else TRUE if value else FALSE)


def _checked(result: Condition, *sides: Side) -> Condition:
    """`result`, if every condition inside the sides that have no value can be evaluated; else the error of that one."""
    inner = [side.inner for side in sides if isinstance(side, NothingSide) and side.inner is not None]
    if not inner:
        return result
    return And((*(Known(condition, TRUE, TRUE) for condition in inner), result))
