"""What all bodies share: the ways to read them, and what a hostile one may cost."""

from __future__ import annotations

import pytest

from rocketlake.protocol.bodies.body import DIALECT_BYTES_MAX, Body, BodyError, parse, parse_answer
from rocketlake.protocol.bodies.offset import OffsetTable


class Sample(Body, kw_only=True):
    queue_id: int
    names: list[str] = []  # noqa: RUF012
    note: str | None = None


@pytest.mark.parametrize(
    "data",
    [
        b'{"queueId":3,"names":["a"]}',
        b'{"queueId":"3","names":["a"],"note":null,"other":{"x":[1]}}',
        b"{queueId:3,'names':['a'],}",
        memoryview(b'{"queueId":3,"names":["a",null]}'),
    ],
)
def test_the_dialect_is_read(data: bytes) -> None:
    assert Sample.decode(data) == Sample(queue_id=3, names=["a"])


def test_none_is_left_out() -> None:
    assert Sample(queue_id=1).encode() == b'{"queueId":1,"names":[]}'


def test_bare_number_keys_are_quoted_and_text_is_left_alone() -> None:
    assert parse(b'{0:"{1:2}",-5 :{7:"a\\"{8:"}, "x":[1,{9:1}]}', "x") == {
        "0": "{1:2}",
        "-5": {"7": 'a"{8:'},
        "x": [1, {"9": 1}],
    }


def test_a_large_table_with_bare_number_keys_is_read_without_the_slow_reader() -> None:
    table = OffsetTable(
        offset_table={f"topic-{number}@group": dict.fromkeys(range(16), number) for number in range(5000)}
    )
    data = table.encode()
    assert len(data) > 4 * DIALECT_BYTES_MAX
    assert OffsetTable.decode(data) == table


def test_a_large_body_in_the_dialect_is_refused() -> None:
    data = b"{'queueId':3,'note':'" + b"x" * DIALECT_BYTES_MAX + b"'}"
    with pytest.raises(BodyError, match="too large"):
        Sample.decode(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'"' * 1_000_000, id="quotes"),
        pytest.param(b'"\\' * 500_000, id="escapes"),
        pytest.param(b"{" * 1_000_000, id="braces"),
        pytest.param(b"{1" * 500_000, id="numbers"),
        pytest.param(b"{ " + b" " * 1_000_000, id="blanks"),
        pytest.param(b",1" * 500_000 + b":", id="keys"),
    ],
)
def test_no_text_costs_more_than_its_length(data: bytes) -> None:
    """In milliseconds; a reader that looks at the rest of the text at each of its bytes would not end."""
    with pytest.raises(BodyError):
        Sample.decode(data)


@pytest.mark.parametrize("data", [b"[]", b"7", b'"x"'])
def test_an_answer_is_an_object(data: bytes) -> None:
    with pytest.raises(BodyError, match="no object"):
        parse_answer(data, "Stats")
