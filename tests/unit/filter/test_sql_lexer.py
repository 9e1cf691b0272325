from __future__ import annotations

import pytest

from rocketlake.filter.sql_errors import ExpressionError
from rocketlake.filter.sql_lexer import TOKENS_MAX, Kind, tokenize


def words(text: str) -> list[str]:
    return [token.text for token in tokenize(text)[:-1]]


def test_the_longest_symbol_wins() -> None:
    assert words("a<=1<>b>=(c)") == ["a", "<=", "1", "<>", "b", ">=", "(", "c", ")"]


def test_keywords_in_any_case_names_as_written() -> None:
    tokens = tokenize("Between betweenX $a_1")
    assert [(token.kind, token.text) for token in tokens[:-1]] == [
        (Kind.KEYWORD, "BETWEEN"),
        (Kind.NAME, "betweenX"),
        (Kind.NAME, "$a_1"),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("7L", 7), ("2147483648", 2**31), ("5.", 5.0), (".5", 0.5), ("5e-3", 0.005), ("1.5E+3", 1500.0)],
)
def test_numbers(text: str, value: float) -> None:
    token = tokenize(text)[0]
    assert (token.text, token.value, type(token.value)) == (text, value, type(value))


@pytest.mark.parametrize(("text", "value"), [("''", ""), ("'it''s'", "it's"), ("''''", "'"), ("'a\nb'", "a\nb")])
def test_strings(text: str, value: str) -> None:
    assert [token.value for token in tokenize(text)] == [value, None]


def test_a_number_may_not_begin_with_zero() -> None:
    assert words("007") == ["0", "0", "7"]


def test_comments_and_blanks_are_left_out() -> None:
    assert words("a/* * /*x**/b--c\nd\f\t--e\re") == ["a", "b", "d", "e"]


def test_a_line_comment_needs_its_line_break() -> None:
    assert words("a--b") == ["a", "-", "-", "b"]


def test_a_line_comment_ends_at_the_first_break_of_either_kind() -> None:
    assert words("a--b\rc--d\r\ne--f\ng--h") == ["a", "c", "e", "g", "-", "-", "h"]


def test_words_and_signs_are_limited() -> None:
    assert len(tokenize("-" * TOKENS_MAX)) == TOKENS_MAX + 1
    with pytest.raises(ExpressionError, match="4,096") as refused:
        tokenize("- " * (TOKENS_MAX + 1))
    assert refused.value.offset == 2 * TOKENS_MAX


@pytest.mark.parametrize(
    ("text", "offset", "says"),
    [
        ("a = 'x", 4, "not closed"),
        ("a /* x *", 2, "not closed"),
        ("a = \u00e4", 4, "does not belong"),
        ("a > 9223372036854775808", 4, "above 9223372036854775807"),
        ("a > " + "9" * 5000, 4, "above 9223372036854775807"),
        ("a > 0.0", 4, "zero"),
        ("a > 1e-400", 4, "zero"),
        ("a > 1e400", 4, "largest double"),
        ("a > .", 4, "does not belong"),
    ],
)
def test_what_is_no_token_is_refused_at_its_place(text: str, offset: int, says: str) -> None:
    with pytest.raises(ExpressionError, match=says) as refused:
        tokenize(text)
    assert refused.value.offset == offset
