"""The meaning of an SQL92 expression, in few kinds of conditions that each engine can decide.

Owns        the conditions, their outcomes, and Expression, the root.
Must not know   how they are written (sql_parser.py), how they are decided (sql_evaluate.py; in Spark: spark/predicate).

A condition has one of four outcomes: TRUE, FALSE, UNKNOWN (SQL's null), or FAILED: a property could not be read as the
number it is compared with. A failure that is reached ends the whole expression, which then is as good as unknown: the
message does not match. AND and OR stop, from left to right, at the first operand that decides; the operands behind that
one are not reached. The tables of outcomes: docs/internals/sql92.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "FAILED",
    "FALSE",
    "TRUE",
    "UNKNOWN",
    "And",
    "BareProperty",
    "BooleanIsText",
    "CompareNumber",
    "ComparePair",
    "Condition",
    "Constant",
    "Equal",
    "EqualsText",
    "Expression",
    "In",
    "IsTrueText",
    "Known",
    "Not",
    "NumberKind",
    "Or",
    "Present",
    "SameText",
    "TextMatch",
    "names_in",
]

FALSE, TRUE, UNKNOWN, FAILED = range(4)


class NumberKind(StrEnum):
    """Java's type of a number literal: the text of a property is read as this type, and must fit into it."""

    INT = "int"
    LONG = "long"
    DOUBLE = "double"


@dataclass(frozen=True, slots=True)
class Condition:
    """Root of all conditions."""


@dataclass(frozen=True, slots=True)
class Constant(Condition):
    """Always this outcome."""

    outcome: int


@dataclass(frozen=True, slots=True)
class Present(Condition):
    """TRUE if the message has the property, else FALSE."""

    name: str


@dataclass(frozen=True, slots=True)
class BareProperty(Condition):
    """A property as a condition: UNKNOWN when absent, FALSE when present (no property is a boolean)."""

    name: str


@dataclass(frozen=True, slots=True)
class EqualsText(Condition):
    """property = 'text'; UNKNOWN when absent."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class IsTrueText(Condition):
    """Is the property "true", in any case? UNKNOWN when absent."""

    name: str


@dataclass(frozen=True, slots=True)
class CompareNumber(Condition):
    """property `op` number, op one of = < <= > >=. UNKNOWN when absent, FAILED when it is no number of this kind."""

    op: str
    name: str
    number: int | float
    kind: NumberKind


@dataclass(frozen=True, slots=True)
class SameText(Condition):
    """left = right: TRUE when both are absent, UNKNOWN when only the left is, FALSE when only the right is."""

    left: str
    right: str


@dataclass(frozen=True, slots=True)
class ComparePair(Condition):
    """left `op` right as doubles, op one of < <= > >=. UNKNOWN when one is absent, FAILED when one is no number."""

    op: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class In(Condition):
    """TRUE if the property is one of the texts, else FALSE. UNKNOWN when absent."""

    name: str
    texts: frozenset[str]


@dataclass(frozen=True, slots=True)
class TextMatch(Condition):
    """CONTAINS, STARTSWITH or ENDSWITH (`how`), or the NOT form. FALSE when absent, in both forms."""

    how: str
    name: str
    search: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """NOT; UNKNOWN stays unknown."""

    inner: Condition


@dataclass(frozen=True, slots=True)
class And(Condition):
    """AND of two or more conditions: FALSE at the first FALSE; else UNKNOWN if a condition was UNKNOWN."""

    inner: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or(Condition):
    """OR of two or more conditions: TRUE at the first TRUE; else UNKNOWN if a condition was UNKNOWN."""

    inner: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Equal(Condition):
    """left = right of two conditions; UNKNOWN as in SameText. Both are decided before they are compared."""

    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True)
class Known(Condition):
    """One outcome if `inner` is TRUE or FALSE, another if it is UNKNOWN; a failure stays one."""

    inner: Condition
    when_known: int
    when_unknown: int


@dataclass(frozen=True, slots=True)
class BooleanIsText(Condition):
    """condition = property, a comparison without rule: FAILED when both are there; UNKNOWN and FALSE as in SameText."""

    left: Condition
    name: str


@dataclass(frozen=True, eq=False)
class Expression:
    """A parsed expression. `names`: the properties it looks at."""

    text: str
    condition: Condition
    names: frozenset[str]

    def __str__(self) -> str:
        return self.text


def names_in(condition: Condition) -> frozenset[str]:
    """The properties that a condition looks at."""
    found: set[str] = set()
    waiting = [condition]
    while waiting:
        match waiting.pop():
            case And(inner) | Or(inner):
                waiting += inner
            case Not(inner) | Known(inner):
                waiting.append(inner)
            case Equal(left, right):
                waiting += (left, right)
            case BooleanIsText(left, name):
                waiting.append(left)
                found.add(name)
            case SameText(left, right) | ComparePair(_, left, right):
                found |= {left, right}
            case CompareNumber(_, name) | TextMatch(_, name):
                found.add(name)
            case Present(name) | BareProperty(name) | EqualsText(name) | IsTrueText(name) | In(name):
                found.add(name)
    return frozenset(found)
