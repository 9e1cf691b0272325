"""Headers to and from string fields, by Java's rules."""

from __future__ import annotations

import pytest
from msgspec import field

from rocketlake.protocol.fields import Header, HeaderError, Int32, Int64, RequestHeader, from_fields, to_fields


class Sample(RequestHeader, kw_only=True):
    consumer_group: str
    queue_id: Int32
    offset: Int64 = 0
    is_force: bool = False
    unit: bool | None = None
    client_id: str | None = field(default=None, name="clientID")


def test_names_are_camel_case_unless_named() -> None:
    fields = to_fields(Sample(consumer_group="g", queue_id=3, client_id="c", unit=True, target_broker="b"))
    assert fields == {
        "consumerGroup": "g", "queueId": "3", "offset": "0", "isForce": "false", "unit": "true",
        "clientID": "c", "bname": "b",
    }  # fmt: skip


def test_unknown_keys_are_ignored_and_absent_ones_take_their_default() -> None:
    header = from_fields(Sample, {"consumerGroup": "g", "queueId": "-1", "tracing": "x"})
    assert header == Sample(consumer_group="g", queue_id=-1)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("True", True), ("false", False), ("yes", False), (" ", False)]
)
def test_a_boolean_is_true_only_when_it_says_so(text: str, value: bool) -> None:
    header = from_fields(Sample, {"consumerGroup": "g", "queueId": "1", "isForce": text, "unit": text})
    assert (header.is_force, header.unit) == (value, value)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(HeaderError, match="queueId is missing"):
        from_fields(Sample, {"consumerGroup": "g"})
    with pytest.raises(HeaderError, match="consumerGroup is missing"):
        from_fields(Sample, None)


@pytest.mark.parametrize("bad", ["x", "1.5", "2147483648", "-2147483649", "1e99", "٣x"])
def test_a_bad_number_is_named_with_its_value(bad: str) -> None:
    with pytest.raises(HeaderError, match="queueId="):
        from_fields(Sample, {"consumerGroup": "g", "queueId": bad})


def test_a_long_is_64_bit() -> None:
    limit = 2**63 - 1
    assert from_fields(Sample, {"consumerGroup": "g", "queueId": "1", "offset": str(limit)}).offset == limit
    with pytest.raises(HeaderError, match="offset="):
        from_fields(Sample, {"consumerGroup": "g", "queueId": "1", "offset": str(limit + 1)})


def test_a_long_bad_value_is_not_repeated_in_full() -> None:
    with pytest.raises(HeaderError) as error:
        from_fields(Sample, {"consumerGroup": "g", "queueId": "x" * 100_000})
    assert len(str(error.value)) < 500


def test_an_empty_header_has_no_fields() -> None:
    class Empty(Header, kw_only=True):
        pass

    assert to_fields(Empty()) == {}
    assert from_fields(Empty, {"a": "b"}) == Empty()
