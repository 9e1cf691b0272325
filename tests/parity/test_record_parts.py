from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from rocketlake.codec.property_text import encode
from rocketlake.codec.record import encode_record

NAME = "rocketlake.codec.record_parts"
NUMBERS = dict.fromkeys(
    ("queue_id", "flag", "queue_offset", "physical_offset", "sys_flag", "born_ms", "store_ms", "reconsume_times",
     "prepared_transaction_offset", "body_crc"),
    0,
)  # fmt: skip
V4, V6 = b"\x7f\0\0\1\0\0\x2a\x9f", bytes(16) + b"\0\0\x2a\x9f"


def record(
    topic: bytes = b"T", body: bytes = b"body", properties: bytes = b"", born: bytes = V4, store: bytes = V4
) -> bytes:
    return bytes(encode_record(topic, body, properties, born_host=born, store_host=store, **NUMBERS))


@pytest.mark.parametrize("topic", [b"T", b"t" * 127, b"t" * 128, b"t" * 5000])
@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("store", [V4, V6])
def test_the_properties_of_a_record(twin: Callable[[str], Any], topic: bytes, born: bytes, store: bytes) -> None:
    properties = encode({"a": "x" * 3000, "KEYS": "k"})
    found = twin(NAME).same("properties_block", record(topic, b"b" * 70_000, properties, born, store))
    assert found == properties
    assert twin(NAME).same("properties_block", memoryview(record(topic, b"", b"", born, store))) == b""


def test_cut_and_changed_records(twin: Callable[[str], Any]) -> None:
    pair, random = twin(NAME), Random(7)
    whole = record(properties=encode({"a": "1", "b": "2"}), born=V6)
    for size in range(len(whole)):
        pair.same("properties_block", whole[:size])
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(random.randint(1, 4)):
            damaged[random.randrange(len(damaged))] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
        pair.same("properties_block", damaged)


@pytest.mark.parametrize("wrong", [None, "text", 5, []])
def test_what_is_no_buffer(twin: Callable[[str], Any], wrong: object) -> None:
    assert isinstance(twin(NAME).same("properties_block", wrong), type)
