from __future__ import annotations

import copy
import pickle

import pytest

from rocketlake.filter.sql_errors import ExpressionError


def test_the_caret_stands_under_the_place() -> None:
    error = ExpressionError("wrong", "a = 1 AND\r\n  b !! 2\nOR c", 15, hint="cure")
    assert (error.line, error.column) == (2, 5)
    assert str(error) == "wrong (line 2, column 5 of the expression). Cure: cure\n    b !! 2\n      ^"


def test_the_end_of_the_text_is_a_place() -> None:
    error = ExpressionError("wrong", "a =", 99)
    assert (error.offset, error.column, error.excerpt) == (3, 4, "  a =\n     ^")


@pytest.mark.parametrize("at", [0, 59, 60, 61, 500, 939, 940, 941, 999])
def test_a_long_line_is_cut_around_the_place(at: int) -> None:
    text = "".join(chr(ord("a") + n % 26) for n in range(1000))
    line, caret = ExpressionError("wrong", text, at).excerpt.split("\n")
    assert len(line) <= 130
    assert line[caret.index("^")] == text[at]


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert ExpressionError("wrong", "a\x1b[31m", 1).excerpt == "  a [31m\n   ^"


def test_spark_can_send_it_between_processes() -> None:
    error = ExpressionError("wrong", "a !", 2, hint="cure")
    again = pickle.loads(pickle.dumps(copy.copy(error)))  # noqa: S301
    assert (str(again), again.offset) == (str(error), 2)
