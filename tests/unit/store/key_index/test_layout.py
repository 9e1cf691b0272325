from __future__ import annotations

import pytest

from rocketlake.base.java.java_compat import string_hash
from rocketlake.store.key_index.layout import (
    entry_position,
    file_size,
    key_hash,
    pack_entry,
    pack_header,
    pack_slot,
    seconds_since,
    slot_position,
    unpack_entry,
    unpack_header,
    unpack_slot,
)


def test_sizes_and_places_are_apaches() -> None:
    assert file_size(5_000_000, 20_000_000) == 420_000_040
    assert slot_position(3) == 52
    assert entry_position(97, 1) == 40 + 4 * 97 + 20


def test_header_slot_and_entry_are_big_endian() -> None:
    header = pack_header(1, 2, 3, 4, 5, 6)
    assert header.hex() == "".join(f"{number:016x}" for number in (1, 2, 3, 4)) + "00000005" + "00000006"
    assert unpack_header(header) == (1, 2, 3, 4, 5, 6)
    assert pack_entry(1, 2, 3, 4).hex() == "00000001" + "0000000000000002" + "00000003" + "00000004"
    assert unpack_entry(b"x" + pack_entry(1, 2, 3, 4), 1) == (1, 2, 3, 4)
    assert unpack_slot(pack_slot(7), 0) == 7


@pytest.mark.parametrize("text", ["", "a", "TopicTest#key", "Topic#ключ", "T#🦊", "x" * 300])
def test_the_hash_of_a_key_is_the_absolute_java_hash(text: str) -> None:
    java = 0
    units = text.encode("utf-16-be")
    for index in range(0, len(units), 2):
        java = (31 * java + int.from_bytes(units[index : index + 2], "big")) & 0xFFFFFFFF
    assert key_hash(text) == abs(java - 2**32 if java >= 2**31 else java)


def test_the_one_hash_without_absolute_value_counts_as_zero() -> None:
    assert string_hash("polygenelubricants") == -(2**31)
    assert key_hash("polygenelubricants") == 0


def test_times_count_in_whole_seconds_and_never_back() -> None:
    assert seconds_since(0, 5000) == 0
    assert seconds_since(10_000, 9_000) == 0
    assert seconds_since(10_000, 12_999) == 2
    assert seconds_since(1, 2**62) == 2**31 - 1
