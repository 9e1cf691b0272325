"""The rules of SQL92 filters, one by one; random agreement with Apache: tests/golden/test_sql92.py."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from rocketlake.filter.sql_evaluate import decide, evaluate, matches
from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.filter.sql_tree import FAILED, FALSE, TRUE, UNKNOWN


def outcome(text: str, **properties: str) -> int:
    return decide(parse_sql92(text), properties)


@pytest.mark.parametrize(
    ("word", "left", "outcomes"),
    [
        ("AND", "TRUE", (TRUE, FALSE, UNKNOWN)),
        ("AND", "FALSE", (FALSE, FALSE, FALSE)),
        ("AND", "NULL", (UNKNOWN, FALSE, UNKNOWN)),
        ("OR", "TRUE", (TRUE, TRUE, TRUE)),
        ("OR", "FALSE", (TRUE, FALSE, UNKNOWN)),
        ("OR", "NULL", (TRUE, UNKNOWN, UNKNOWN)),
    ],
)
def test_three_values(word: str, left: str, outcomes: tuple[int, ...]) -> None:
    assert tuple(outcome(f"{left} {word} {right}") for right in ("TRUE", "FALSE", "NULL")) == outcomes


def test_not() -> None:
    assert [outcome(f"NOT {value}") for value in ("TRUE", "FALSE", "NULL")] == [FALSE, TRUE, UNKNOWN]


@pytest.mark.parametrize(
    "text", ["a = 'x'", "a <> 'x'", "a > 1", "a IN ('x')", "a NOT IN ('x')", "a", "NOT a", "a < b"]
)
def test_an_absent_property_is_unknown(text: str) -> None:
    assert outcome(text) == UNKNOWN
    assert evaluate(parse_sql92(text), {}) is None
    assert not matches(parse_sql92(text), {})


def test_the_side_of_an_absent_property_counts() -> None:
    assert [outcome("a = 'x'"), outcome("'x' = a"), outcome("'x' <> a"), outcome("5 = a")] == [
        UNKNOWN,
        FALSE,
        TRUE,
        FALSE,
    ]
    assert [outcome("a = b"), outcome("a = b", a="x"), outcome("a = b", b="x")] == [TRUE, FALSE, UNKNOWN]


def test_presence_is_never_unknown() -> None:
    assert [outcome("a IS NULL"), outcome("a IS NULL", a="x")] == [TRUE, FALSE]
    assert [outcome("a IS NOT NULL"), outcome("a IS NOT NULL", a="x")] == [FALSE, TRUE]
    assert [outcome("(a = 'x') IS NULL"), outcome("(a = 'x') IS NULL", a="y")] == [TRUE, FALSE]


@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [
        ("a > 5", "6", TRUE),
        ("a > 5", "5", FALSE),
        ("a > 5", "3000000000", FAILED),
        ("a > 5000000000", "3000000000", FALSE),
        ("a = 5", "+005", TRUE),
        ("a = 5", "5.0", FAILED),
        ("a = 5.0", "5", TRUE),
        ("a > 5.5", "NaN", TRUE),
        ("a <= 5.5", "NaN", FALSE),
        ("a BETWEEN 1 AND 5", "5", TRUE),
        ("a NOT BETWEEN 1 AND 5", "5", FALSE),
        ("a NOT BETWEEN 1 AND 5", "6", TRUE),
        ("a = TRUE", "TrUe", TRUE),
        ("a = FALSE", "yes", TRUE),
        ("TRUE = a", "true", FAILED),
        ("a", "true", FALSE),
        ("NOT a", "true", TRUE),
        ("-a IS NULL", "5", TRUE),
        ("a > -5", "-4", TRUE),
        ("a = ' 5'", "5", FALSE),
    ],
)
def test_values_are_read_as_the_literals_type(text: str, value: str, wanted: int) -> None:
    assert outcome(text, a=value) == wanted


@pytest.mark.parametrize("word", ["CONTAINS", "STARTSWITH", "ENDSWITH"])
def test_text_matches_are_false_for_an_absent_property_in_both_forms(word: str) -> None:
    assert outcome(f"a {word} 'x'") == outcome(f"a NOT {word} 'x'") == FALSE
    assert outcome(f"a {word} ''", a="x") == outcome(f"a NOT {word} ''", a="x") == FALSE
    assert outcome(f"a {word} 'x'", a="x") == outcome(f"a NOT {word} 'X'", a="x") == TRUE


def test_text_matches() -> None:
    assert outcome("a STARTSWITH 'ab' AND a ENDSWITH 'cd' AND a CONTAINS 'bc'", a="abcd") == TRUE
    assert outcome("a STARTSWITH 'bc' OR a ENDSWITH 'bc' OR a NOT CONTAINS 'bc'", a="abcd") == FALSE


def test_a_failure_that_is_reached_ends_the_expression() -> None:
    assert outcome("a > 5 OR TRUE", a="x") == FAILED
    assert outcome("TRUE OR a > 5", a="x") == TRUE
    assert outcome("FALSE AND a > 5", a="x") == FALSE
    assert outcome("NOT (a > 5)", a="x") == FAILED
    assert outcome("(a > 5) IS NULL", a="x") == FAILED
    assert outcome("-(a > 5) IS NULL", a="x") == FAILED
    assert outcome("b > -(a > 5)", a="x") == UNKNOWN
    assert outcome("b > -(a > 5)", a="x", b="1") == FAILED
    assert evaluate(parse_sql92("a > 5 OR TRUE"), {"a": "x"}) is None


def test_two_properties_are_compared_as_doubles_by_order_and_as_texts_for_equality() -> None:
    assert outcome("a < b", a="9", b="10") == TRUE
    assert outcome("a < b", a="-0.0", b="0") == TRUE
    assert outcome("a < b", a="x", b="10") == FAILED
    assert outcome("a = b", a="5", b="5.0") == FALSE


def test_any_mapping_will_do() -> None:
    assert matches(parse_sql92("a = 'x'"), MappingProxyType({"a": "x"}))


def test_nothing_takes_long_because_it_is_nested() -> None:
    text = "a = 1"
    for _ in range(20):
        text = f"-({text}) BETWEEN 1 AND 2"
    assert outcome(text, a="1") == UNKNOWN
    assert outcome("a" + " = a" * 60, a="x") == FAILED
