from __future__ import annotations

import random
import struct

import pytest

from rocketlake.codec.property_text import encode
from rocketlake.model.message import Message, StoredMessage

NAME = "rocketlake.codec.record_batch"
MESSAGES = [Message("T", b"one", tags="A"), Message("T", b"", flag=-5), Message("T", b"x" * 3000, keys="k1 k2")]


def test_whole_batches(twin):
    pair = twin(NAME)
    body = pair.same("encode_batch", MESSAGES)
    for kind in (bytes, bytearray, memoryview):
        assert len(pair.same("decode_batch", kind(body))) == 3
        assert len(pair.same("iter_batch", kind(body))) == 3
    pair.same("decode_batch", body, 2)
    pair.same("decode_batch", b"")


def test_too_large_properties(twin):
    assert twin(NAME).same("encode_batch", [Message("T", b"", properties={"a": "x" * 40000})]).__name__ == "RecordError"


def test_every_cut_and_every_changed_length(twin):
    pair = twin(NAME)
    body = pair.source.encode_batch(MESSAGES[:2])
    for end in range(len(body)):
        pair.same("decode_batch", body[:end])
    for position in range(0, len(body) - 3):
        for number in (-1, 0, 1, 22, 2**31 - 1, -(2**31)):
            broken = bytearray(body)
            struct.pack_into(">i", broken, position, number)
            pair.same("decode_batch", broken)


def test_random_bytes(twin):
    numbers = random.Random(11)
    pair = twin(NAME)
    for _ in range(500):
        pair.same("decode_batch", numbers.randbytes(numbers.randrange(80)))


@pytest.mark.parametrize("sys_flag", [0, 64, 128, 192])
def test_unwrapping(twin, sys_flag):
    pair = twin(NAME)
    body = pair.source.encode_batch(MESSAGES)
    outer = StoredMessage("T", body, sys_flag=sys_flag, queue_offset=10, properties={"INNER_NUM": "3"})
    found = pair.same("unwrap_batch", outer)
    assert len(found) == (3 if sys_flag == 192 else 1)


@pytest.mark.parametrize("wrong", [None, 5, "text"])
def test_what_is_no_batch(twin, wrong):
    twin(NAME).same("decode_batch", wrong)
    assert encode({}) == b""
