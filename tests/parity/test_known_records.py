"""Both forms pass the same records, exactly those that dispatch_scan.py calls sound."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rocketlake.codec.record_parts import properties_block
from rocketlake.store.dispatch_scan import scan

NAME = "rocketlake.store.known_records"
GOLDEN = sorted((Path(__file__).parents[1] / "golden/stores/apache-5.3.3-clean/commitlog").iterdir())
ALL = 2**62


def passed(twin, data, base, check_crc=True, *, below=ALL, index_below=ALL, safe_end=0, ends=()):
    """Skip with both forms; they must agree in all they tell. Gives (bytes passed, last store time, queues seen)."""
    results = []
    for form in (twin(NAME).source, twin(NAME).compiled):
        known = form.KnownRecords(below, index_below, safe_end)
        for topic, queue_id, end in ends:
            known.queues.setdefault(topic, {})[queue_id] = form.QueueEnd(end)
        taken = known.skip(memoryview(data).toreadonly(), base, check_crc)
        queues = known.queues
        seen = {(topic, queue_id) for topic in queues for queue_id, end in queues[topic].items() if end.is_seen}
        results.append((taken, known.last_store_ms, seen))
    assert results[0] == results[1]
    return results[0]


def damaged(chance):
    path = chance.choice(GOLDEN)
    data = bytearray(path.read_bytes()[: chance.randrange(100, 6000)])
    for _ in range(chance.randrange(1, 4)):
        position = chance.randrange(len(data))
        data[position : position + chance.choice([1, 2, 4, 8])] = chance.choice(
            [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", chance.randbytes(4)]
        )
    return bytes(data), int(path.name)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
@pytest.mark.parametrize("check_crc", [True, False])
def test_recorded_logs_are_passed_to_their_end(twin, path, check_crc):
    entries, taken, _status = scan(memoryview(path.read_bytes()), int(path.name), check_crc, ())
    assert passed(twin, path.read_bytes(), int(path.name), check_crc) == (taken, entries[-1].store_ms, set())


@pytest.mark.parametrize("seed", range(300))
@pytest.mark.parametrize("check_crc", [True, False])
def test_a_damaged_log_is_passed_as_far_as_it_is_sound(twin, seed, check_crc):
    data, base = damaged(random.Random(seed))
    entries, taken, _status = scan(memoryview(data), base, check_crc, ())
    places = [(entry.physical_offset - base, entry.size) for entry in entries]
    torn = (at for at, size in places if properties_block(data[at : at + size]).endswith(b"\0"))  # log_walk.py looks
    assert passed(twin, data, base, check_crc)[0] == next(torn, taken)


@pytest.mark.parametrize("seed", range(200))
def test_a_record_that_its_queue_or_the_index_lacks_ends_it(twin, seed):
    chance = random.Random(seed)
    path = chance.choice(GOLDEN)
    base = int(path.name)
    data = path.read_bytes()
    entries, taken, _status = scan(memoryview(data), base, True, ())
    ends = {}
    for entry in entries:
        ends[entry.topic.encode(), entry.queue_id] = entry.physical_offset + entry.size
    for key in list(ends):
        if chance.random() < 0.05:
            ends[key] = chance.choice([entry.physical_offset for entry in entries])
        elif chance.random() < 0.02:
            del ends[key]
    below = chance.choice([-1, base + taken // 2])
    index_below = chance.choice([ALL, chance.choice([entry.physical_offset for entry in entries])])
    expected = base + taken
    seen = set()
    for entry in entries:
        key = entry.topic.encode(), entry.queue_id
        if entry.physical_offset < below:
            continue
        lacks_queue = entry.is_queued() and entry.physical_offset + entry.size > ends.get(key, -1)
        if lacks_queue or (entry.is_indexed() and entry.index_keys() and entry.physical_offset >= index_below):
            expected = entry.physical_offset
            break
        if entry.is_queued():
            seen.add(key)
    flat = [(topic, queue_id, end) for (topic, queue_id), end in ends.items()]
    result = passed(twin, data, base, below=below, index_below=index_below, ends=flat)
    assert (base + result[0], result[2]) == (expected, seen)


@pytest.mark.parametrize("seed", range(200))
def test_below_the_safe_end_checksums_are_not_worked_out(twin, seed):
    data, base = damaged(random.Random(seed))
    unchecked = scan(memoryview(data), base, False, ())[1]
    checked = scan(memoryview(data), base, True, ())[1]
    assert passed(twin, data, base, safe_end=base + len(data))[0] == unchecked
    assert passed(twin, data, base, safe_end=base + checked)[0] == checked


@pytest.mark.parametrize("length", range(0, 300))
def test_a_cut_log(twin, length):
    data = GOLDEN[0].read_bytes()[:length]
    assert passed(twin, data, int(GOLDEN[0].name))[0] == scan(memoryview(data), int(GOLDEN[0].name), True, ())[1]
