from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.filter import sql_tree as tree
from rocketlake.filter.sql_errors import ExpressionError
from rocketlake.filter.sql_parser import CHARACTERS_MAX, CONDITIONS_MAX, DEPTH_MAX, parse_sql92

A, B, C = (tree.EqualsText(name, "x") for name in "abc")


def condition(text: str) -> tree.Condition:
    return parse_sql92(text).condition


def test_and_is_stronger_than_or() -> None:
    assert condition("a='x' OR b='x' AND c='x'") == tree.Or((A, tree.And((B, C))))
    assert condition("(a='x' or b='x') and c='x'") == tree.And((tree.Or((A, B)), C))


def test_a_chain_is_one_condition() -> None:
    assert condition("a='x' AND b='x' AND c='x'") == tree.And((A, B, C))


def test_not_is_stronger_than_a_comparison() -> None:
    assert condition("NOT (a='x')") == tree.Not(A)
    assert condition("NOT a = TRUE") == tree.Not(tree.BareProperty("a"))


def test_comparisons_go_from_left_to_right() -> None:
    assert condition("a = 'x' = b") == tree.BooleanIsText(A, "b")


def test_numbers_are_of_the_smallest_java_type() -> None:
    kinds = [condition(f"a > {number}") for number in ("5", "-2147483648", "2147483648L", "5e0")]
    assert [(part.number, part.kind) for part in kinds if isinstance(part, tree.CompareNumber)] == [
        (5, tree.NumberKind.INT),
        (-(2**31), tree.NumberKind.LONG),
        (2**31, tree.NumberKind.LONG),
        (5.0, tree.NumberKind.DOUBLE),
    ]


def test_a_literal_on_the_left_is_turned_around() -> None:
    assert condition("5 < a") == condition("a > 5")


def test_what_needs_no_message_is_decided_while_reading() -> None:
    assert condition("5 = '5' OR a = 'x'") == tree.Or((tree.Constant(tree.TRUE), A))
    assert condition("'abc' CONTAINS 'bc'") == tree.Constant(tree.TRUE)
    assert condition("'x' = 5") == tree.Constant(tree.FAILED)
    assert condition("2 BETWEEN 1 AND 3.5") == tree.And((tree.Constant(tree.TRUE), tree.Constant(tree.TRUE)))


def test_the_properties_it_looks_at() -> None:
    text = "a > 5 AND b IN ('x') OR (c IS NULL) OR (d = e) = (f < g) OR -(h) IS NULL OR (i) OR (j=TRUE) = k"
    text += " OR l CONTAINS 'x'"
    assert parse_sql92(text).names == frozenset("abcdefgijkl")


@pytest.mark.parametrize(
    ("text", "offset", "says"),
    [
        ("", 0, "the end"),
        ("  ", 2, "the end"),
        ("a = 1 AND", 9, "the end"),
        ("a = 1)", 5, r"complete before '\)'"),
        ("a = 1 XOR b = 2", 6, "complete before 'XOR'"),
        ("a LIKE 'x%'", 2, "CONTAINS"),
        ("a NOT LIKE 'x%'", 6, "CONTAINS"),
        ("a == 1", 3, "missing before '='"),
        ("(a = 1", 6, r"\) is missing before the end"),
        ("a IS 5", 5, "NULL is missing"),
        ("a BETWEEN 1 OR 5", 12, "AND is missing"),
        ("a BETWEEN 5 AND 1", 10, "above the upper"),
        ("a IN (5)", 6, "IN takes a string"),
        ("a IN 'x'", 5, r"\( is missing"),
        ("a IN ('x' 'y')", 10, r"\) is missing"),
        ("'x' IN ('x')", 0, "only a property"),
        ("a CONTAINS b", 11, "CONTAINS takes a string"),
        ("a = NULL", 4, "IS NULL"),
        ("NULL <> a", 0, "IS NULL"),
        ("TRUE = 5", 7, "boolean"),
        ("a > 'x'", 4, "only numbers"),
        ("a > TRUE", 4, "only numbers"),
        ("(a = 1) > 2", 0, "only numbers"),
        ("NOT a > 5", 0, "only numbers"),
        ("5", 0, "a condition must stand"),
        ("a AND 'x'", 6, "a condition must stand"),
        ("NOT -a", 4, "a condition must stand"),
    ],
)
def test_a_wrong_expression_is_refused_at_its_place(text: str, offset: int, says: str) -> None:
    with pytest.raises(ExpressionError, match=says) as refused:
        parse_sql92(text)
    assert refused.value.offset == offset


@pytest.mark.parametrize("opening", ["(", "NOT ", "-", "+"])
def test_depth_is_limited(opening: str) -> None:
    closing = ")" if opening == "(" else ""
    inner = "a" if opening in ("(", "NOT ") else "a = b"
    parse_sql92(opening * (DEPTH_MAX - 1) + inner + closing * (DEPTH_MAX - 1))
    with pytest.raises(ExpressionError, match=f"more than {DEPTH_MAX}"):
        parse_sql92(opening * (DEPTH_MAX + 1) + inner + closing * (DEPTH_MAX + 1))


@pytest.mark.parametrize("step", [" = TRUE", " CONTAINS 'x'", " IS NULL", " = a"])
def test_chained_comparisons_count_as_depth_even_across_parentheses(step: str) -> None:
    parse_sql92("a" + step * DEPTH_MAX)
    with pytest.raises(ExpressionError, match=f"more than {DEPTH_MAX}"):
        parse_sql92("a" + step * (DEPTH_MAX + 1))
    with pytest.raises(ExpressionError, match=f"more than {DEPTH_MAX}"):
        parse_sql92("(" * 60 + "a" + step * 10 + (")" + step) * 60)


def test_a_long_chain_of_or_is_not_deep() -> None:
    found = condition(" OR ".join(f"a = '{n}'" for n in range(CONDITIONS_MAX - 1)))
    assert isinstance(found, tree.Or) and len(found.inner) == CONDITIONS_MAX - 1


def test_conditions_and_characters_are_limited() -> None:
    with pytest.raises(ExpressionError, match=f"more than {CONDITIONS_MAX} conditions"):
        parse_sql92(" OR ".join(f"a = '{n}'" for n in range(CONDITIONS_MAX)))
    with pytest.raises(UsageError, match="characters"):
        parse_sql92("a = '" + "x" * CHARACTERS_MAX + "'")
    texts = [str(n) for n in range(2000)]
    assert condition(f"a IN ({','.join(map(repr, texts))})") == tree.In("a", frozenset(texts))
