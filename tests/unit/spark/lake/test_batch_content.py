"""The digest of a batch: equal for the same rows in any order and any pieces, another one for other rows."""

from __future__ import annotations

import datetime
import decimal
import random
from typing import Any

import pyarrow as pa
import pytest

from rocketlake.spark.lake.batch_content import BatchContent, content_of

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "number": (pa.int64(), [1, 2, None, -(2**63)]),
    "small": (pa.int16(), [1, 2, None, 0]),
    "flag": (pa.bool_(), [True, False, None, True]),
    "text": (pa.string(), ["a", "", None, "é"]),
    "long_text": (pa.large_string(), ["a", "", None, "é"]),
    "data": (pa.binary(), [b"a", b"", None, b"\xff"]),
    "day": (pa.date32(), [datetime.date(2026, 1, day) for day in (1, 2, 3)] + [None]),
    "moment": (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(2026, 1, day, tzinfo=datetime.UTC) for day in (1, 2, 3)] + [None],
    ),
    "price": (pa.decimal128(10, 2), [decimal.Decimal("1.50"), decimal.Decimal("1.51"), None, decimal.Decimal(0)]),
    "properties": (pa.map_(pa.string(), pa.string()), [[("a", "b")], [], None, [("a", "c")]]),
    "list": (pa.list_(pa.int32()), [[1, 2], [], None, [2, 1]]),
}


def batch(name: str, values: list[Any]) -> pa.RecordBatch:
    rows = pa.array(range(len(values)), pa.int64())
    return pa.RecordBatch.from_arrays([pa.array(values, COLUMNS[name][0]), rows], ["value", "row"])


@pytest.mark.parametrize("name", COLUMNS)
def test_a_change_of_one_value_is_another_content_and_order_is_not(name: str) -> None:
    values = COLUMNS[name][1]
    whole = batch(name, values)
    content = content_of(whole)
    assert content.rows == 4
    order = list(range(4))
    random.Random(1).shuffle(order)
    shuffled = whole.take(pa.array(order))
    pieces = [content_of(shuffled.slice(first, 1)) for first in range(4)]
    assert sum(pieces, BatchContent()) == content
    for place in range(4):
        for other in values:
            if other != values[place]:
                assert content_of(batch(name, [*values[:place], other, *values[place + 1 :]])).digest != content.digest


def test_a_name_and_a_doubled_row_count() -> None:
    one = pa.RecordBatch.from_pydict({"a": [1, 2]})
    assert content_of(one).digest != content_of(one.rename_columns(["b"])).digest
    assert content_of(one).digest != content_of(pa.RecordBatch.from_pydict({"a": [2, 1, 1]})).digest


def test_floating_point_numbers_are_left_out() -> None:
    one, other = (pa.RecordBatch.from_pydict({"a": [1], "sum": [value]}) for value in (0.3, 0.1 + 0.2))
    assert content_of(one) == content_of(other)


def test_of_rows_with_a_place_in_a_queue_only_that_counts() -> None:
    place: dict[str, list[Any]] = {"topic": ["T"], "brokerName": ["b"], "queueId": [1], "queueOffset": [5]}
    one = content_of(pa.RecordBatch.from_pydict(place | {"id": [1]}))
    assert content_of(pa.RecordBatch.from_pydict(place | {"id": [2]})) == one
    for name, other in {"topic": "U", "brokerName": "c", "queueId": 2, "queueOffset": 6}.items():
        assert content_of(pa.RecordBatch.from_pydict(place | {name: [other], "id": [1]})) != one


def test_it_is_kept_as_text() -> None:
    content = BatchContent(7, 2**64 - 1)
    assert BatchContent.from_text(content.to_text()) == content
    assert BatchContent.from_text("") is None
