from __future__ import annotations

from rocketlake.store.consume_queue.entry import (
    ENTRY_SIZE,
    FILLER,
    is_filler,
    pack_entry,
    unpack_entries,
    valid_count,
)


def test_an_entry_is_offset_size_and_tag_code_in_20_big_endian_bytes() -> None:
    data = pack_entry(0x0102030405060708, 0x090A0B0C, -2)
    assert data.hex() == "0102030405060708" + "090a0b0c" + "fffffffffffffffe"
    assert len(data) == ENTRY_SIZE
    assert unpack_entries(data * 2) == [(0x0102030405060708, 0x090A0B0C, -2)] * 2


def test_a_filler_has_the_largest_size_and_nothing_else() -> None:
    assert FILLER.hex() == "00" * 8 + "7fffffff" + "00" * 8
    assert is_filler(*unpack_entries(FILLER)[0][:2])
    assert not is_filler(*unpack_entries(pack_entry(0, 100, 0))[0][:2])


def test_written_entries_end_at_a_negative_offset_or_a_size_of_nothing() -> None:
    good = pack_entry(0, 1, 0)
    assert valid_count(good * 3) == 3
    assert valid_count(good + bytes(ENTRY_SIZE) + good) == 1
    assert valid_count(good + pack_entry(-1, 5, 0)) == 1
    assert valid_count(good + pack_entry(5, -1, 0)) == 1
    assert valid_count(FILLER + good) == 2
    assert valid_count(b"") == 0
