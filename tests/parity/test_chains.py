from __future__ import annotations

import random
from array import array

import pytest

NAME = "rocketlake.store.key_index.chains"


def forms_of(twin):
    return twin(NAME).source, twin(NAME).compiled


def entry(hash_code, physical, seconds, previous):
    return b"".join(
        number.to_bytes(size, "big") for number, size in ((hash_code, 4), (physical, 8), (seconds, 4), (previous, 4))
    )


@pytest.mark.parametrize("seed", range(100))
def test_entries_put_and_slots_that_leave(twin, seed):
    """The same calls to both forms, the file brought forward by what the source form says."""
    chance = random.Random(seed)
    slots, waiting_max = chance.choice([1, 50, 5000, 50_000]), chance.randrange(1, 90)
    data = bytearray(40 + 4 * slots)
    view = memoryview(data).toreadonly()
    pages = 1 + (40 + 4 * slots) // 4096
    held = bytes([1]) * pages if chance.random() < 0.5 else bytes(pages)  # a file with pages, or with holes only
    forms = [form.NewEntries(slots, view, bytearray(held), waiting_max) for form in forms_of(twin)]

    def same(call):
        expected, got = (call(form) for form in forms)
        assert got == expected
        return expected

    number = 1
    for _ in range(60):
        while same(lambda form: form.is_late):
            if same(lambda form: form.leaves):
                position, piece = same(lambda form: form.piece())
                data[position : position + len(piece)] = piece
                same(lambda form: form.piece_written())
            else:
                same(lambda form: form.begin_leaving())
        count = chance.randrange(min(20, same(lambda form: form.step)) + 1)
        words = [word for at in range(count) for word in (chance.randrange(2**31), (number + at) << 20)]
        pairs, first = array("q", words), number
        same(lambda form, pairs=pairs, first=first: form.put(pairs, 0, len(pairs), first, 9))
        number += count
        slot, total = chance.randrange(slots), number
        same(lambda form, slot=slot, total=total: form.head(slot, total))
        same(lambda form: (form.row(), form.row_count, form.waiting))
        if chance.random() < 0.2:
            same(lambda form: form.row_written())


@pytest.mark.parametrize("seed", range(200))
def test_damaged_entries(twin, seed):
    chance = random.Random(seed)
    physical, entries = 0, bytearray()
    for _ in range(chance.randrange(30)):
        physical += chance.randrange(100)
        entries += entry(chance.randrange(50), physical, chance.randrange(9), chance.randrange(5))
    for _ in range(chance.randrange(3)):
        if entries:
            position = chance.randrange(len(entries))
            damage = chance.choice([b"\0" * 20, b"\xff\xff\xff\xff", b"\x80", b"\x01"])
            entries[position : position + len(damage)] = damage[: len(entries) - position]
    results = []
    for form in forms_of(twin):
        heads = array("i", [0]) * 7
        results.append((form.link_entries(bytes(entries), 1, 0, 2**62, heads), heads))
    assert results[0] == results[1]


@pytest.mark.parametrize("length", range(0, 61, 4))
def test_a_cut_row_of_entries(twin, length):
    data = (entry(3, 10, 0, 0) * 3)[:length]
    results = [form.link_entries(data, 1, 0, 100, array("i", [0] * 3)) for form in forms_of(twin)]
    assert results[0] == results[1]
    assert results[0][0] == length // 20
