from __future__ import annotations

import random
from array import array

import pytest

NAME = "rocketlake.store.key_index.layout"


@pytest.mark.parametrize(
    "text", ["", "a", "TopicTest#7F000001", "polygenelubricants", "Топик#ключ", "T#🦊", "x" * 10_000, "\ud800"]
)
def test_key_hash(twin, text):
    twin(NAME).same("key_hash", text)


@pytest.mark.parametrize("text", [None, b"bytes", 5, ["a"]])
def test_what_is_no_text_is_refused_alike(twin, text):
    twin(NAME).same("key_hash", text)


@pytest.mark.parametrize("begin_ms", [-5, 0, 1, 1_700_000_000_000, 2**62])
@pytest.mark.parametrize("store_ms", [-1, 0, 999, 1_700_000_000_999, 2**62, 2**63 - 1])
def test_seconds_since(twin, begin_ms, store_ms):
    twin(NAME).same("seconds_since", begin_ms, store_ms)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("file_size", (5_000_000, 20_000_000)),
        ("slot_position", (2**31,)),
        ("entry_position", (5_000_000, 20_000_000)),
        ("pack_header", (1, 2, 3, 4, 5, 6)),
        ("pack_header", (2**63, 2, 3, 4, 5, 6)),
        ("pack_header", (1, 2, 3, 4, 5, 2**31)),
        ("pack_entry", (2**31 - 1, 2**63 - 1, 0, 0)),
        ("pack_entry", (-(2**31) - 1, 0, 0, 0)),
        ("pack_slot", (2**31,)),
        ("pack_slot", ("1",)),
        ("unpack_header", (bytes(39),)),
        ("unpack_header", (memoryview(bytes(range(40))),)),
        ("unpack_entry", (bytes(20), 1)),
        ("unpack_entry", (bytes(range(40)), -20)),
        ("unpack_slot", (bytearray(b"\xff" * 8), 4)),
    ],
)
def test_bytes(twin, function, arguments):
    twin(NAME).same(function, *arguments)


@pytest.mark.parametrize("seed", range(40))
def test_link_entries(twin, seed):
    pair = twin(NAME)
    chance = random.Random(seed)
    data = bytearray()
    for number in range(1, 60):
        data += pair.source.pack_entry(chance.randrange(2**31), number * 10, number, chance.randrange(number))
    for _ in range(chance.randrange(3)):
        data[chance.randrange(len(data))] = chance.choice([0, 0x7F, 0x80, 0xFF])
    heads = [array("i", [0] * 7) for _ in range(2)]
    results = [
        form.link_entries(data, 1, 0, 550, slots)
        for form, slots in zip((pair.source, pair.compiled), heads, strict=True)
    ]
    assert results[0] == results[1]
    assert heads[0] == heads[1]


def test_link_entries_refuses_part_of_an_entry_alike(twin):
    twin(NAME).same("link_entries", bytes(21), 1, 0, 100, array("i", [0]))
