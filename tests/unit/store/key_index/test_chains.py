from __future__ import annotations

from array import array

import pytest

from rocketlake.store.key_index.chains import NewEntries, link_entries
from rocketlake.store.key_index.layout import (
    file_size,
    pack_entry,
    pack_slot,
    slot_position,
    unpack_entry,
    unpack_slot,
)


def new_entries(slots: int, waiting_max: int, data: bytearray | None = None) -> NewEntries:
    content = bytearray(file_size(slots, 10)) if data is None else data
    held = bytearray(b"\1") * (1 + len(content) // 4096)
    return NewEntries(slots, memoryview(content).toreadonly(), held, waiting_max)


def put(new: NewEntries, hash_code: int, number: int) -> int:
    return new.put(array("q", (hash_code, number * 100)), 0, 2, number, 7)


def test_a_row_is_entries_linked_to_what_waits_and_to_what_is_in_the_file() -> None:
    data = bytearray(file_size(10, 10))
    data[slot_position(3) : slot_position(4)] = pack_slot(1)
    data[slot_position(4) : slot_position(5)] = pack_slot(9)  # no such entry
    new = new_entries(10, 5, data)
    pairs = array("q", (99, 0, 13, 2**40, 4, 2**40, 3, 2**41, 2**31 - 1, 2**62))
    assert new.put(pairs, 2, 10, 2, 5) == 2
    expected = ((13, 2**40, 5, 1), (4, 2**40, 5, 0), (3, 2**41, 5, 2), (2**31 - 1, 2**62, 5, 0))
    assert new.row() == b"".join(pack_entry(*entry) for entry in expected)
    assert [new.head(slot, 6) for slot in range(8)] == [0, 0, 0, 4, 3, 0, 0, 5]
    new.row_written()
    assert (new.row(), new.row_count, new.waiting) == (b"", 0, 3)


def test_a_row_has_an_end() -> None:
    new = new_entries(10, 5)
    steps = 0
    while step := new.step:
        new.put(array("q", (1, 100) * step), 0, 2 * step, new.row_count + 1, 0)
        steps += 1
    assert new.row_count > 10 * steps > 100
    assert len(new.row()) == new.row_count * 20


def test_slots_leave_page_by_page_and_untouched_pages_stay() -> None:
    slots = 100_000
    data = bytearray(file_size(slots, 10))
    new = new_entries(slots, 4, data)
    used = [0, 1, 2000, 50_000, 50_900, 99_999]
    for number, slot in enumerate(used, 1):
        put(new, slot, number)
    assert new.is_late
    new.begin_leaving()
    put(new, 2000, 7)  # again, while its older head leaves
    assert unpack_entry(new.row(), 6 * 20)[3] == 3
    pieces = []
    while new.leaves:
        assert new.piece() == new.piece()
        position, piece = new.piece()
        pieces.append((position, len(piece)))
        data[position : position + len(piece)] = piece
        assert [new.head(slot, 8) for slot in used] == [1, 2, 7, 4, 5, 6]
        new.piece_written()
    assert pieces[0] == (40, 8192 - 40)
    assert sum(length for _position, length in pieces) < 6 * 4096
    assert pieces[-1][0] + pieces[-1][1] == slot_position(slots)
    assert [unpack_slot(data, slot_position(slot)) for slot in used] == [1, 2, 3, 4, 5, 6]
    assert sum(data) == sum(range(1, 7))


def test_all_have_left_before_as_many_wait_again() -> None:
    slots = 100_000
    new = new_entries(slots, 500)
    number = 0
    longest = 0
    for round_number in range(3):
        for _ in range(500):
            number += 1
            put(new, number * 7919 + round_number, number)
            new.row_written()
            steps = 0
            while new.is_late:
                if new.leaves:
                    new.piece_written()
                    steps += 1
                else:
                    new.begin_leaving()
            longest = max(longest, steps)
        assert new.waiting <= 500
    assert longest < 5


def test_links_are_made_anew_from_the_entries_alone() -> None:
    heads = array("i", [0] * 3)
    data = pack_entry(1, 10, 0, 99) + pack_entry(4, 20, 1, 0) + pack_entry(2, 20, 2, 0)
    right = pack_entry(1, 10, 0, 0) + pack_entry(4, 20, 1, 1) + pack_entry(2, 20, 2, 0)
    assert link_entries(data, 1, 0, 100, heads) == (3, 20, 2, 2, right)
    assert list(heads) == [0, 2, 3]
    assert link_entries(right, 1, 0, 100, array("i", [0] * 3)) == (3, 20, 2, 2, b"")


@pytest.mark.parametrize(
    "broken",
    [
        pack_entry(0, 0, 0, 0),  # a page that never reached the disk
        pack_entry(1, 9, 0, 0),  # an older record behind a newer one
        pack_entry(1, 100, 0, 0),  # a record that is no longer there
        pack_entry(-1, 20, 0, 0),
        pack_entry(1, -20, 0, 0),
        pack_entry(1, 20, -1, 0),
    ],
)
def test_sound_entries_end_at_the_first_that_cannot_be(broken: bytes) -> None:
    heads = array("i", [0] * 3)
    wrong, right = pack_entry(1, 10, 0, 3), pack_entry(1, 10, 0, 0)
    assert link_entries(wrong + broken + right, 1, 0, 100, heads) == (1, 10, 0, 1, right)
    assert list(heads) == [0, 1, 0]
