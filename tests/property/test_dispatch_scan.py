"""Whatever bytes lie in a commit log, a scan of them raises nothing and believes no record that is not sound."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketlake.store.dispatch_scan import BAD_LENGTH, BLANK, BROKEN, END, scan

GOLDEN = sorted((Path(__file__).parents[1] / "golden/stores/apache-5.3.3-clean/commitlog").iterdir())
LOGS = {int(path.name): path.read_bytes() for path in GOLDEN}
DELAYS_MS = (1000, 5000)


def check(data: bytes, base: int) -> int:
    """Scan; every record found must be whole, in its place, and have the CRC it names. Returns how many there are."""
    entries, taken, status = scan(memoryview(data), base, True, DELAYS_MS)
    assert status in (END, BLANK, BROKEN, BAD_LENGTH)
    position = 0
    for entry in entries:
        assert entry.physical_offset == base + position
        assert 0 < entry.size == int.from_bytes(data[position : position + 4], "big")
        sys_flag = int.from_bytes(data[position + 36 : position + 40], "big")
        body = position + 88 + (12 if sys_flag & 16 else 0) + (12 if sys_flag & 32 else 0)
        length = int.from_bytes(data[body - 4 : body], "big")
        crc = int.from_bytes(data[position + 8 : position + 12], "big")
        assert length == 0 or zlib.crc32(data[body : body + length]) & 0x7FFFFFFF == crc
        position += entry.size
    assert position == taken <= len(data)
    return len(entries)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=2000), base=st.integers(0, 2**62))
def test_random_bytes(data: bytes, base: int) -> None:
    check(data, base)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), changes=st.integers(0, 20), start=st.sampled_from(sorted(LOGS)))
def test_a_real_log_with_changed_bytes(seed: int, changes: int, start: int) -> None:
    chance = random.Random(seed)
    data = bytearray(LOGS[start][: chance.randrange(200, 20_000)])
    sound = check(bytes(data), start)
    for _ in range(changes):
        position = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[position] ^= 1 << chance.randrange(8)
            case 1:
                data[position : position + 4] = chance.randbytes(4)
            case 2:
                data[position : position + 512] = bytes(512)
            case 3:
                data[position : position + 4] = b"\x7f\xff\xff\xff"
    assert check(bytes(data), start) <= max(sound, len(data) // 91)


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32), extreme=st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]), width=st.sampled_from([1, 2, 4, 8])
)
def test_every_field_of_a_record_at_its_extremes(seed: int, extreme: int, width: int) -> None:
    data = bytearray(LOGS[0][:4000])
    chance = random.Random(seed)
    size = int.from_bytes(data[:4], "big")
    position = chance.randrange(size)
    data[position : position + width] = bytes([extreme]) * width
    check(bytes(data), 0)
