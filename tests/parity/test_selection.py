from __future__ import annotations

import random
import struct

import pytest

NAME = "rocketlake.store.selection"
ENTRY = struct.Struct(">qiq")
HEAD = struct.Struct(">iI4xi4xqqi44xi")
TOPIC, QUEUE_ID, FIRST = b"Topic", 3, 1 << 33
MAGIC = 0xDAA320A7
NUMBERS = (
    "count",
    "bytes",
    "is_full",
    "is_outside",
    "wanted_offset",
    "wanted_size",
    "gone_below",
    "misnumbered",
    "odd",
)
WIDE = (1 << 62, 1000, 1 << 40, 1000, 1 << 40, 1000, 1 << 40)
"""Limits nothing here reaches."""


def record(offset, size, number=0, magic=MAGIC, topic=TOPIC, queue_id=QUEUE_ID):
    body_size = size - HEAD.size - len(topic) - (1 if magic == MAGIC else 2)
    head = HEAD.pack(size, magic, queue_id, FIRST + number, offset, 0, max(0, body_size))
    return (head + b"." * body_size + len(topic).to_bytes(1 if magic == MAGIC else 2, "big") + topic)[:size]


def log_of(sizes, start=0):
    """(bytes of a log, the entries of its records)"""
    data, entries = bytearray(), []
    for number, size in enumerate(sizes):
        entries.append((start + len(data), size, number))
        data += record(start + len(data), size, number)
    return bytes(data), entries


def walk(form, limits, packed, steps, match=None, match_record=None, begin=0):
    """Walk through `packed`, shown one window after the other; everything that can be seen of it."""
    selection = form.Selection(*limits, TOPIC, QUEUE_ID, begin)
    trace, at = [], 0
    for window in (None, *steps):
        if isinstance(window, int):
            selection.gone_below = window
        elif window is not None:
            selection.show(*window)
        at = selection.take(packed, FIRST, at, match, match_record)
        trace.append((at, *(int(getattr(selection, name)) for name in NUMBERS)))
    selection.end_piece()
    return trace, [bytes(piece) for piece in selection.pieces]


def both(pair, limits, entries, steps, **tests):
    packed = entries if isinstance(entries, bytes) else b"".join(ENTRY.pack(*entry) for entry in entries)
    results = [walk(form, limits, packed, steps, **tests) for form in (pair.source, pair.compiled)]
    assert results[0] == results[1]
    return results[0]


def test_neighbours_are_one_piece_and_others_are_not(twin):
    data, entries = log_of([100] * 6)
    window = (memoryview(data), 0, len(data), None)
    assert both(twin(NAME), WIDE, entries, [window])[1] == [data]
    assert both(twin(NAME), WIDE, entries[::2], [window])[1] == [data[:100], data[200:300], data[400:500]]
    assert both(twin(NAME), WIDE, entries[:2] + entries[4:], [window])[1] == [data[:200], data[400:]]


def test_a_record_of_another_number_is_taken_and_counted(twin):
    data, entries = log_of([100] * 6)
    entries[3] = entries[4]
    trace, pieces = both(twin(NAME), WIDE, entries, [(memoryview(data), 0, len(data), None)])
    assert b"".join(pieces) == data[:300] + data[400:500] * 2 + data[500:]
    assert trace[-1][-2:] == (1, 0)


def test_a_record_of_a_deleted_topic_is_odd(twin):
    data, entries = log_of([100] * 6)
    trace, pieces = both(twin(NAME), WIDE, entries, [(memoryview(data), 0, len(data), None)], begin=200)
    assert pieces == [data[200:]]
    assert trace[-1][-1] == 2


def test_the_window_moves_to_where_a_record_lies(twin):
    first, of_first = log_of([100, 100])
    second, of_second = log_of([100, 100], start=1000)
    view, other = memoryview(first), memoryview(second)
    steps = [(view, 0, 150, None), (view, 0, 200, None), (other, 1000, 1100, None), (other, 1000, 1200, None)]
    trace, pieces = both(twin(NAME), WIDE, of_first + of_second, steps)
    assert pieces == [first, second]
    assert [step[0] for step in trace] == [0, 1, 2, 3, 4]
    assert [step[4] for step in trace] == [1, 1, 1, 1, 0]
    assert [step[5] for step in trace[:4]] == [0, 100, 1000, 1100]


@pytest.mark.parametrize(
    "limits",
    [
        (0, 9, 1 << 40, 3, 1 << 40, 9, 9),
        (1 << 62, 9, 1 << 40, 9, 9, 3, 1 << 40),
        (0, 9, 1 << 40, 9, 300, 9, 9),
        (0, 9, 300, 9, 1 << 40, 9, 9),
        (1 << 62, 3, 1 << 40, 9, 9, 9, 1 << 40),
        (250, 9, 1 << 40, 9, 1 << 40, 2, 1 << 40),
    ],
)
def test_limits_of_recent_and_of_old_records(twin, limits):
    data, entries = log_of([100] * 6)
    trace, _pieces = both(twin(NAME), limits, entries, [(memoryview(data), 0, len(data), None)])
    assert trace[-1][3] == 1
    assert trace[-1][0] == trace[-1][1] == (2 if limits[0] == 250 else 3)


def test_the_first_message_is_taken_whatever_its_size(twin):
    data, entries = log_of([5000, 100])
    trace, pieces = both(twin(NAME), (0, 1, 1, 1, 1, 1, 1), entries, [(memoryview(data), 0, len(data), None)])
    assert (trace[-1][0], len(pieces[0])) == (1, 5000)


@pytest.mark.parametrize("tests", [{"match": lambda code: code % 3 == 1}, {"match_record": lambda data: data[35] < 45}])
def test_what_no_test_wants_is_passed_by(twin, tests):
    data, entries = log_of([100] * 6)
    trace, pieces = both(twin(NAME), WIDE, entries, [(memoryview(data), 0, len(data), None)], **tests)
    assert trace[-1][0] == 6
    assert sum(len(piece) for piece in pieces) == 200
    with pytest.raises(ZeroDivisionError):
        both(twin(NAME), WIDE, entries, [(memoryview(data), 0, len(data), None)], match=lambda code: 1 // 0)


def test_a_test_of_records_may_end_the_walk(twin):
    """None: enough for this read; the record is not passed by."""
    data, entries = log_of([100] * 6)
    answers = {0: False, 100: True, 200: False, 300: None}
    tests = {"match_record": lambda record: answers[int.from_bytes(record[28:36], "big")]}
    trace, pieces = both(twin(NAME), WIDE, entries, [(memoryview(data), 0, len(data), None)], **tests)
    assert (trace[-1][0], trace[-1][3]) == (3, 1)
    assert pieces == [data[100:200]]


def test_fillers_and_what_is_gone_are_passed_by(twin):
    data, entries = log_of([100] * 4)
    entries = [(0, 0x7FFFFFFF, 0), (0, 0x7FFFFFFF, 0), *entries]
    trace, pieces = both(twin(NAME), WIDE, entries, [150, (memoryview(data), 0, len(data), None)])
    assert trace[-1][0] == 6
    assert pieces == [data[200:]]


@pytest.mark.parametrize("position", [*range(8), *range(28, 36)])
def test_a_record_that_is_none_is_passed_by(twin, position):
    data, entries = log_of([100] * 3)
    damaged = bytearray(data)
    damaged[100 + position] ^= 0x40
    trace, pieces = both(twin(NAME), WIDE, entries, [(memoryview(damaged), 0, len(data), None)])
    assert trace[-1][0] == 3
    assert pieces == [data[:100], data[200:]]


@pytest.mark.parametrize("size", [-(1 << 31), -1, 0, 1, 35, 36, 0x7FFFFFFE])
@pytest.mark.parametrize("offset", [-(1 << 63), -1, 0, 100, 199, 200, 1 << 40, (1 << 63) - 1])
def test_entries_that_lie(twin, offset, size):
    data, entries = log_of([100] * 2)
    trace, _pieces = both(twin(NAME), WIDE, [(offset, size, 7), *entries], [(memoryview(data), 0, len(data), None)])
    assert trace[-1][1] in (0, 2)


@pytest.mark.parametrize("seed", range(200))
def test_random_queues(twin, seed):
    chance = random.Random(seed)
    data, entries = log_of([chance.randrange(100, 300) for _ in range(chance.randrange(1, 40))])
    damaged = bytearray(data)
    for _ in range(chance.randrange(3)):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    chosen = [entry for entry in entries if chance.random() < 0.7]
    packed = bytearray(b"".join(ENTRY.pack(*entry) for entry in chosen))
    for _ in range(chance.randrange(2) if packed else 0):
        packed[chance.randrange(len(packed))] ^= 1 << chance.randrange(7)
    steps = [
        chance.choice(
            [
                (memoryview(damaged), 0, chance.randrange(len(data) + 1), chance.choice([None, bytearray(b"\1")])),
                chance.randrange(len(data)),
            ]
        )
        for _ in range(chance.randrange(5))
    ]
    limits = chance.randrange(len(data)), *(chance.choice([1, 3, 500, 1 << 40]) for _ in range(6))
    both(twin(NAME), limits, bytes(packed), steps, match=chance.choice([None, lambda code: code % 2 == 0]))


def test_a_record_in_blocks_that_are_not_all_sure_is_outside(twin):
    block = 1 << 18
    data, entries = log_of([block - 50, 100, 3 * block, 100])
    sure = bytearray(5)
    for number in range(5):
        trace, pieces = both(twin(NAME), WIDE, entries, [(memoryview(data), 0, len(data), sure)])
        assert trace[-1][4] == 1
        assert trace[-1][0] == (0, 1, 2, 2, 2)[number]
        assert sum(len(piece) for piece in pieces) == (0, block - 50, block + 50, block + 50, block + 50)[number]
        sure[number] = 1
    assert both(twin(NAME), WIDE, entries, [(memoryview(data), 0, len(data), sure)])[1] == [data]
    with pytest.raises(IndexError):
        both(twin(NAME), WIDE, entries, [(memoryview(data), 0, len(data), bytearray(b"\1\1\1"))])


def test_a_cut_entry_is_no_entry(twin):
    data, entries = log_of([100] * 2)
    packed = b"".join(ENTRY.pack(*entry) for entry in entries)
    for length in range(len(packed)):
        trace, _pieces = both(twin(NAME), WIDE, packed[:length], [(memoryview(data), 0, len(data), None)])
        assert trace[-1][0] == length // 20
