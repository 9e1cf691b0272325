from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import pytest

from rocketlake.codec.compression import compress
from rocketlake.codec.host import encode_host
from rocketlake.codec.property_text import encode

NAME = "rocketlake.codec.record"
GOLDEN = sorted((Path(__file__).parents[1] / "golden/stores/apache-5.3.3-clean/commitlog").iterdir())
V4 = encode_host("10.1.2.3", 10911)
V6 = encode_host("2001:db8::1", 10911)


def parts(topic=b"TopicTest", body=b"hello", properties=None, **changes):
    fields = {
        "queue_id": 3, "flag": -7, "queue_offset": 2**40, "physical_offset": 2**41, "sys_flag": 0,
        "born_ms": 1_700_000_000_001,
        "born_host": V4, "store_ms": 1_700_000_000_002, "store_host": V4, "reconsume_times": 2,
        "prepared_transaction_offset": 9,
        "body_crc": zlib.crc32(body) & 0x7FFFFFFF if isinstance(body, bytes | bytearray | memoryview) else 0,
    }  # fmt: skip
    return (topic, body, encode({"TAGS": "A", "KEYS": "k"} if properties is None else properties)), fields | changes


VALID = [
    parts(),
    parts(topic=b"T" * 127),
    parts(topic=b"T" * 128),
    parts(topic=b"T" * 32767),
    parts(topic=b"", body=b"", properties={}),
    parts(body=bytearray(b"body")),
    parts(body=memoryview(b"body")),
    parts(born_host=V6),
    parts(store_host=V6, sys_flag=16),
    parts(born_host=V6, store_host=V6),
    parts(body=compress(b"plain" * 100, 3), sys_flag=1),
    parts(body=compress(b"plain" * 100, 1), sys_flag=0x101),
    parts(body=compress(b"plain" * 100, 2), sys_flag=0x201),
    parts(queue_id=-1, queue_offset=-1, sys_flag=-1 & ~0x701),
]
INVALID = [
    parts(topic=b"T" * 32768),
    parts(born_host=b"1234567"),
    parts(queue_id=2**31),
    parts(queue_offset=2**63),
    parts(body_crc=-(2**31) - 1),
    parts(flag="5"),
    parts(body="text"),
    parts(body=None),
    parts(topic="text"),
    parts(queue_id=1.5),
]


@pytest.mark.parametrize("record", VALID)
def test_valid_records_are_written_and_read_alike(twin, record):
    pair = twin(NAME)
    written = pair.same("encode_record", *record[0], **record[1])
    for kind in (bytes, bytearray, memoryview):
        for check_crc in (True, False):
            for decompress in (True, False):
                pair.same("decode_record", kind(written), check_crc=check_crc, decompress=decompress)
    pair.same("decode_record", b"xyz" + written, 3)
    assert len(pair.same("decode_records", written * 3)) == 3
    assert len(pair.same("iter_records", written * 3)) == 3


@pytest.mark.parametrize("record", INVALID)
def test_what_fits_no_record_is_refused_alike(twin, record):
    assert isinstance(twin(NAME).same("encode_record", *record[0], **record[1]), type)


@pytest.mark.parametrize("record", VALID[:2] + VALID[2:3] + VALID[9:11])
def test_every_cut_and_every_changed_length(twin, record):
    pair = twin(NAME)
    whole = bytes(pair.source.encode_record(*record[0], **record[1]))
    for end in range(len(whole)):
        assert pair.same("decode_record", whole[:end]).__name__ == "RecordError"
    for position in range(len(whole) - 3):
        for number in (-1, 0, 1, 90, 127, 128, 32767, 2**31 - 1, -(2**31)):
            broken = bytearray(whole)
            struct.pack_into(">i", broken, position, number)
            pair.same("decode_record", broken)
            pair.same("decode_record", broken, check_crc=False)
    for position in range(len(whole)):
        broken = bytearray(whole)
        broken[position] ^= 0xFF
        pair.same("decode_records", bytes(broken) + whole)


def test_positions_outside_the_buffer(twin):
    pair = twin(NAME)
    whole = pair.source.encode_record(*VALID[0][0], **VALID[0][1])
    for position in (-1, -len(whole), len(whole), len(whole) + 5, 2**40):
        assert pair.same("decode_record", whole, position).__name__ == "RecordError"


def test_random_bytes(twin):
    numbers = random.Random(13)
    pair = twin(NAME)
    for _ in range(500):
        noise = bytearray(numbers.randbytes(numbers.randrange(300)))
        if len(noise) > 8:
            struct.pack_into(">ii", noise, 0, len(noise), -626843481)
        pair.same("decode_record", noise)


@pytest.mark.parametrize("wrong", [None, 5, "x" * 200, [1] * 200])
def test_what_is_no_buffer(twin, wrong):
    assert twin(NAME).same("decode_record", wrong) is TypeError


def test_sizes(twin):
    pair = twin(NAME)
    for sizes in ((0, 0, 0), (127, 5, 6), (128, 5, 6), (200, 2**40, 0, 20, 8)):
        pair.same("record_size", *sizes)
    pair.same("encode_blank", 100)
    pair.same("encode_blank", 2**31)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_records_written_by_apache(twin, path):
    assert len(twin(NAME).same("decode_records", path.read_bytes())) > 100
