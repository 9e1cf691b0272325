"""SQL92 filters on random input: the parser never fails but by a UsageError, and deciding never fails at all."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketlake.base.errors import UsageError
from rocketlake.filter.sql_errors import ExpressionError
from rocketlake.filter.sql_evaluate import decide
from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.filter.sql_tree import FALSE, TRUE, UNKNOWN
from tests.sql92_cases import NOISE, random_expression, random_message

WORDS = st.sampled_from(
    [*NOISE, "b", "'x'", "OR", "BETWEEN", "IS", "CONTAINS", "TRUE", ",", "-", "+", "1.5", ">", "\n"]
)


@settings(deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=40).map(" ".join)))
def test_any_text_is_read_or_refused_with_a_place_inside_it(text: str) -> None:
    try:
        expression = parse_sql92(text)
    except ExpressionError as error:
        assert 0 <= error.offset <= len(text)
        line, caret = error.excerpt.split("\n")
        assert caret.endswith("^") and len(caret) <= len(line) + 1
    except UsageError as error:
        raise AssertionError("short texts are within the limits") from error
    else:
        assert decide(expression, {}) in range(4)


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_laws_of_three_valued_logic(random: Random) -> None:
    """De Morgan for what does not fail; NOT NOT x is x; an expression is what it is in parentheses."""
    # `--` begins a comment only where a line ends behind it: without that, `--a` is a minus twice.
    texts = [random_expression(random) + "\n" for _ in range(2)]
    try:
        first, second = (parse_sql92(text) for text in texts)
    except UsageError:
        return
    message = random_message(random)
    left, right = decide(first, message), decide(second, message)
    assert decide(parse_sql92(f"(({texts[0]}))"), message) == left
    assert decide(parse_sql92(f"NOT NOT ({texts[0]})"), message) == left
    if {left, right} <= {TRUE, FALSE, UNKNOWN}:
        both = decide(parse_sql92(f"({texts[0]}) AND ({texts[1]})"), message)
        assert both == decide(parse_sql92(f"NOT (NOT ({texts[0]}) OR NOT ({texts[1]}))"), message)
        assert both == decide(parse_sql92(f"({texts[1]}) AND ({texts[0]})"), message)
