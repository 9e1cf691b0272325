"""The numbers that kernels have of the record layout are those of Python."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from rocketlake.codec import host, property_text, record_batch, record_layout
from rocketlake.model import property_names, sys_flag
from rocketlake.store.consume_queue import entry

SOURCE = Path(__file__).parents[2] / "src" / "rocketlake" / "codec"
_NUMBER = re.compile(r"^ {4}([A-Z][A-Z0-9_]*) = (0x[0-9A-F]+|\d+)", re.MULTILINE)
PLACES = (record_layout, entry, host, sys_flag)


def numbers(name: str) -> dict[str, int]:
    found = {name: int(value, 0) for name, value in _NUMBER.findall((SOURCE / name).read_text())}
    assert found
    return found


def test_each_number_is_that_of_python() -> None:
    for name, value in numbers("record_layout.pxd").items():
        there = [vars(place)[name] for place in PLACES if name in vars(place)]
        assert there, f"{name} stands in no module of Python"
        assert {number & 0xFFFFFFFF for number in there} == {value}, name


def test_each_place_of_python_is_there() -> None:
    places = {name for name in record_layout.__all__ if name.endswith("_AT")}
    assert places <= numbers("record_layout.pxd").keys()


def test_the_largest_queue_offset_has_an_entry() -> None:
    assert record_layout.QUEUE_OFFSET_MAX == (2**63 - 1) // entry.ENTRY_SIZE
    assert "(INT64_MAX / 20)" in (SOURCE / "record_layout.pxd").read_text()


def test_the_separators_of_properties() -> None:
    found = numbers("property_scan.pxd")
    assert chr(found["NAME_END"]) == property_names.NAME_SEPARATOR
    assert chr(found["VALUE_END"]) == property_names.PAIR_SEPARATOR
    assert property_text.encode({"a": "b"}) == bytes((ord("a"), found["NAME_END"], ord("b"), found["VALUE_END"]))


def test_a_batch_entry_has_its_head() -> None:
    head = struct.calcsize(">iiiii")
    assert head == record_layout.BATCH_HEAD_BYTES
    (only,) = record_batch.decode_batch(struct.pack(">iiiii", head + 3, 0, 0, 0, 1) + b"x\0\0")
    assert bytes(only[1]) == b"x"
