from __future__ import annotations

import random
from pathlib import Path

import pytest

NAME = "rocketlake.store.dispatch_scan"
GOLDEN = sorted((Path(__file__).parents[1] / "golden/stores/apache-5.3.3-clean/commitlog").iterdir())
DELAYS_MS = (1000, 5000, 10_000)


def both(pair, data, base, check_crc=True, delays_ms=DELAYS_MS):
    """Scan with both forms; they must agree in every field. Returns (entries as tuples, bytes taken, status)."""
    results = []
    for form in (pair.source, pair.compiled):
        entries, taken, status = form.scan(memoryview(data), base, check_crc, delays_ms)
        keys = [entry.index_keys() for entry in entries]
        kinds = [(bool(entry.is_queued()), bool(entry.is_indexed())) for entry in entries]
        results.append(([entry.as_tuple() for entry in entries], keys, kinds, taken, status))
    assert results[0] == results[1]
    return results[0]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
@pytest.mark.parametrize("check_crc", [True, False])
def test_recorded_logs(twin, path, check_crc):
    found = both(twin(NAME), path.read_bytes(), int(path.name), check_crc)
    assert len(found[0]) > 5


@pytest.mark.parametrize("seed", range(300))
def test_damaged_logs(twin, seed):
    chance = random.Random(seed)
    path = chance.choice(GOLDEN)
    data = bytearray(path.read_bytes()[: chance.randrange(100, 4000)])
    for _ in range(chance.randrange(1, 6)):
        position = chance.randrange(len(data))
        data[position : position + chance.choice([1, 2, 4, 8])] = chance.choice(
            [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", chance.randbytes(4)]
        )
    for check_crc in (True, False):
        both(twin(NAME), bytes(data), int(path.name), check_crc)


@pytest.mark.parametrize("seed", range(50))
def test_random_bytes(twin, seed):
    chance = random.Random(seed)
    both(twin(NAME), chance.randbytes(chance.randrange(400)), chance.choice([0, 2**31, 2**62]))


@pytest.mark.parametrize("position", [8, 16, 20, 28, 36, 84])
@pytest.mark.parametrize("width", [1, 4, 8])
def test_fields_at_their_extremes(twin, position, width):
    for value in (0, 1, 0x7F, 0x80, 0xFF):
        data = bytearray(GOLDEN[0].read_bytes()[:2000])
        data[position : position + width] = bytes([value]) * width
        both(twin(NAME), bytes(data), 0)


@pytest.mark.parametrize(
    "properties",
    [
        b"",
        b"TAGS\x01A\x02KEYS\x01a b  c\x02UNIQ_KEY\x010A\x02DELAY\x012\x02",
        b"TAGS\x01\xff\xfe\x02KEYS\x01\xd0\xba\x02",
        b"DELAY\x01" + b"9" * 5000,
        b"DELAY\x01\xd9\xa1\x02TAGS\x01A",  # a digit, but no ASCII one
        b"\x01\x02\x02\x01\x01TAGS\x01",
    ],
)
@pytest.mark.parametrize("topic", ["T", "SCHEDULE_TOPIC_XXXX", ""])
@pytest.mark.parametrize("delays_ms", [(), (1000,), [1000, 2000]])
def test_appended_entry(twin, properties, topic, delays_ms):
    pair = twin(NAME)
    numbers = (3, 2**40, 2**41, 2**31 - 1, 1_700_000_000_000, 0x7FFFFFFF, -1)
    source, compiled = (
        form.appended_entry(topic, *numbers, properties, delays_ms) for form in (pair.source, pair.compiled)
    )
    assert source.as_tuple() == compiled.as_tuple()
    assert source.index_keys() == compiled.index_keys()
