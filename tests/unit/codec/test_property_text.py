from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.codec.property_text import decode, encode, encode_again, find


def test_the_layout():
    assert encode({"TAGS": "A", "é": "中"}) == b"TAGS\x01A\x02\xc3\xa9\x01\xe4\xb8\xad\x02"
    assert encode({}) == b""


def test_what_has_no_value_is_left_out():
    assert encode({"a": None, "b": "c"}) == b"b\x01c\x02"


@pytest.mark.parametrize(
    "properties", [{"a\x01": "b"}, {"a": "b\x02c"}, {"ok": "v", "bad": "\x01"}, {"a": None, "b": "\x01"}]
)
def test_a_separator_inside_is_refused_by_name(properties):
    bad = list(properties)[-1]
    with pytest.raises(UsageError, match=repr(bad).strip("'").replace("\\", r"\\")):
        encode(properties)


@pytest.mark.parametrize(
    ("block", "properties"),
    [
        (b"", {}),
        (b"a\x01b\x02", {"a": "b"}),
        (b"a\x01b", {"a": "b"}),
        (b"a\x01\x02b\x01c\x02", {"b": "c"}),
        (b"\x01b\x02", {}),
        (b"ab\x02c\x01d", {"c": "d"}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        (b"a\x011\x02a\x012\x02", {"a": "2"}),
        (b"a\x01\xff\x02", {"a": "\ufffd"}),
        (b"\x02\x02\x02", {}),
    ],
)
def test_reading(block, properties):
    assert decode(block) == properties
    assert decode(memoryview(block)) == properties


@pytest.mark.parametrize(
    "block", [b"", b"a\x01b\x02", b"a\x01b\x01c\x02d\x01\x01\x02", b"a\x01\xff\x02", b"\x01\x02a\x01b"]
)
def test_what_was_read_is_written_again_and_read_as_the_same(block):
    properties = decode(block)
    assert decode(encode_again(properties)) == properties


def test_no_value_adds_a_property_to_what_was_read():
    with pytest.raises(UsageError, match="'group'"):
        encode_again({"a": "b\x01c", "group": "g\x02REAL_TOPIC\x01other"})


def test_find_agrees_with_reading_the_whole():
    block = b"XKEYS\x01no\x02KEYS\x01first\x02KEYS\x01last\x02KEYS\x01\x02A\x01KEYS\x02"
    assert find(block, b"KEYS") == b"last"
    assert find(block, b"XKEYS") == b"no"
    assert find(block, b"EYS") is None
    assert find(block, b"A") == b"KEYS"
    assert find(memoryview(block), b"A") == b"KEYS"
    assert find(b"A\x01no end", b"A") == b"no end"
    assert find(b"", b"A") is None
