from __future__ import annotations

import math

import pytest

from rocketlake.filter.sql_numbers import INT_MAX, LONG_MAX, compare_doubles, read_double, read_integer


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-0", 0), ("+5", 5), ("007", 7), ("2147483647", INT_MAX), ("-2147483648", -INT_MAX - 1)],
)
def test_integers(text: str, number: int) -> None:
    assert read_integer(text, INT_MAX) == number


@pytest.mark.parametrize(
    "text",
    ["", "-", "+", "--5", "5.0", " 5", "5 ", "1_0", "2147483648", "-2147483649", "0x5", "\u0665", "\u00b2", "9" * 5000],
)
def test_no_integers(text: str) -> None:
    assert read_integer(text, INT_MAX) is None


def test_the_range_is_that_of_the_literal() -> None:
    assert read_integer("2147483648", LONG_MAX) == 2**31
    assert read_integer("-9223372036854775808", LONG_MAX) == -(2**63)
    assert read_integer("9223372036854775808", LONG_MAX) is None
    assert read_integer("-" + "0" * 1000 + "5", INT_MAX) == -5


def test_very_long_texts_are_no_numbers() -> None:
    assert read_integer("5".zfill(1024), INT_MAX) == read_double("5".zfill(1024)) == 5
    assert read_integer("5".zfill(1025), INT_MAX) is read_double("5".zfill(1025)) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5.0),
        (" \t5.5\x01\n", 5.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("+1e3", 1000.0),
        ("1.5E-3d", 0.0015),
        ("5f", 5.0),
        ("5.5D", 5.5),
        ("1e400", math.inf),
        ("-1e400", -math.inf),
        ("1e-400", 0.0),
        ("-Infinity", -math.inf),
        ("0x1p3", 8.0),
        ("-0X.8p+1f", -1.0),
        ("0x1.p5000", math.inf),
        ("-0x1p5000", -math.inf),
        ("0x1p-5000", 0.0),
    ],
)
def test_doubles(text: str, number: float) -> None:
    assert read_double(text) == number


def test_nan_is_a_double() -> None:
    assert all(math.isnan(read_double(text) or 0) for text in ("NaN", "+NaN", "-NaN "))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ".",
        "e5",
        "5e",
        "5e+",
        "nan",
        "inf",
        "infinity",
        "INFINITY",
        "NaNd",
        "1_0",
        "0x5",
        "0xp1",
        "5dd",
        "5 5",
        "\u00a05",
        "\u0665",
    ],
)
def test_no_doubles(text: str) -> None:
    assert read_double(text) is None


def test_doubles_have_javas_order() -> None:
    ordered = [-math.inf, -1.5, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan]
    for i, low in enumerate(ordered):
        for j, high in enumerate(ordered):
            assert compare_doubles(low, high) == (i > j) - (i < j)
