"""Arrow's form of an SQL92 filter; random agreement with the evaluator: tests/property/test_sql92_arrow.py."""

from __future__ import annotations

import pyarrow as pa

from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.spark.predicate.to_arrow import arrow_mask

MAP = pa.map_(pa.string(), pa.string())


def mask(text: str, *rows: object, type_: pa.DataType = MAP) -> list[bool | None]:
    found = arrow_mask(parse_sql92(text), pa.array(rows, type_))
    assert isinstance(found, pa.BooleanArray)
    return found.to_pylist()


def test_a_mask_keeps_the_rows_that_match() -> None:
    rows = pa.array([[("a", "7")], [("a", "5")], [("a", "x")], [], None], MAP)
    found = arrow_mask(parse_sql92("a > 5"), rows)
    assert found.to_pylist() == [True, False, None, None, None]
    assert pa.table({"p": rows}).filter(found).num_rows == 1


def test_no_rows() -> None:
    assert mask("a > 5 AND TRUE") == []
    assert mask("TRUE") == []


def test_a_slice_and_other_string_types() -> None:
    rows = pa.array([[("a", "1")], [("a", "2")], [("a", "3")]], MAP)
    assert arrow_mask(parse_sql92("a = 2"), rows.slice(1, 2)).to_pylist() == [True, False]
    assert mask("a = 2", [("a", "2")], type_=pa.map_(pa.string(), pa.large_string())) == [True]


def test_the_last_of_equal_names_counts() -> None:
    assert mask("a = 'y'", [("a", "x"), ("a", "y")]) == [True]


def test_a_failure_behind_what_decides_is_not_reached() -> None:
    rows = ([("a", "x"), ("b", "1")], [("a", "x")], [("a", "6")])
    assert mask("b = 1 OR a > 5", *rows) == [True, None, True]
    assert mask("b IS NOT NULL AND a > 5", *rows) == [None, False, False]


def test_plain_and_odd_numbers_in_one_column() -> None:
    values = ("5", "+5", "5.0", " 5.0 ", "NaN", "0x1p3", "5,0", "1" * 30, "5".zfill(1025))
    rows = [[("a", value)] for value in values]
    assert mask("a >= 5.0", *rows) == [True, True, True, True, True, True, None, True, None]
    assert mask("a = 5", *rows) == [True, True, None, None, None, None, None, None, None]
