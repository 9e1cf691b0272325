from __future__ import annotations

import random
from types import MappingProxyType

import pytest

NAME = "rocketlake.codec.property_text"

BLOCKS = [
    b"", b"a", b"\x01", b"\x02", b"a\x01b\x02", b"a\x01b", b"\x01b\x02", b"a\x01\x02", b"a\x01b\x01c\x02",
    b"\x02\x02a\x01b",
    b"a\x01b\x02a\x01c\x02", b"a\x01b\x02a\x01\x02", b"KEY\x01x\x02EY\x01y\x02", b"\xff\xfe\x01\xff\x02",
    "标签\x01值\x02".encode(), b"a\x01" + b"x" * 40000 + b"\x02",
]  # fmt: skip


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("block", BLOCKS)
def test_any_block_in_any_buffer(twin, block, kind):
    pair = twin(NAME)
    properties = pair.same("decode", kind(block))
    for name in (b"a", b"EY", b"KEY", b"", b"\xff\xfe", b"missing"):
        found = pair.same("find", kind(block), name)
        if name.isascii() and name:
            assert (found.decode("utf-8", "replace") if found is not None else None) == properties.get(name.decode())


def test_random_bytes(twin):
    numbers = random.Random(7)
    pair = twin(NAME)
    for _ in range(2000):
        block = bytes(numbers.choice(b"ab\x01\x02\xc3") for _ in range(numbers.randrange(20)))
        pair.same("decode", block)
        for name in (b"a", b"b", b"ab", b"\xc3"):
            pair.same("find", block, name)


@pytest.mark.parametrize(
    "properties",
    [
        {}, {"a": "b"}, {"a": "b", "c": None}, {"": ""}, {"a\x01": "b"}, {"a": "b\x02"}, {"标签": "值😀"},
        {"a": "\ud800"},
        {"a": 5}, MappingProxyType({"a": "b"}),
    ],
)  # fmt: skip
def test_any_mapping(twin, properties):
    twin(NAME).same("encode", properties)
    twin(NAME).same("encode_again", properties)


@pytest.mark.parametrize("wrong", [None, 5, "text", [("a", "b")]])
def test_what_is_no_block_or_mapping(twin, wrong):
    pair = twin(NAME)
    pair.same("encode", wrong)
    pair.same("decode", wrong)
    pair.same("find", wrong, b"a")
    pair.same("find", b"a\x01b", wrong)
