"""Stepping through records, and finding one behind bytes that are none; in the form that is installed."""

from __future__ import annotations

import numpy as np
import pytest

from rocketlake.base.crc32 import crc32
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import encode_blank, encode_record
from rocketlake.codec.record_walk import (
    BAD_LENGTH,
    BLANK,
    BROKEN,
    END,
    find_record,
    find_record_slowly,
    walk,
    walk_slowly,
)

HOST = encode_host("127.0.0.1", 10911)
BASE = 4096


def record(place: int, body: bytes = b"body", **more: int) -> bytes:
    values = {"queue_id": 0, "queue_offset": 7} | more
    return bytes(
        encode_record(
            b"T", body, b"k\x01v\x02", flag=0, physical_offset=place, sys_flag=0, born_ms=1, born_host=HOST, store_ms=2,
            store_host=HOST, reconsume_times=0, prepared_transaction_offset=0, body_crc=crc32(body), **values,
        )
    )  # fmt: skip


def run(count: int) -> bytes:
    data = b""
    for number in range(count):
        data += record(BASE + len(data), b"x" * number)
    return data


@pytest.fixture(params=[(walk, find_record), (walk_slowly, find_record_slowly)], ids=["installed", "slow"])
def forms(request: pytest.FixtureRequest) -> tuple[object, ...]:
    return tuple(request.param)


def test_each_record_is_stepped_on(forms: tuple) -> None:  # type: ignore[type-arg]
    data = run(5)
    starts, end, status = forms[0](data, BASE)
    assert (end, status) == (len(data), END)
    sizes = np.diff(np.append(np.frombuffer(starts, dtype=np.int64), len(data)))
    assert sizes.tolist() == [len(record(0, b"x" * number)) for number in range(5)]


@pytest.mark.parametrize(
    ("behind", "status"),
    [
        (b"", END),
        (b"\0\0\0\x70\xda\xa3\x20", END),
        (encode_blank(99), BLANK),
        (bytes(100), BROKEN),
        (record(BASE), BROKEN),  # of another place: an old one
        (record(0, queue_offset=-1), BROKEN),
    ],
)
def test_it_says_why_it_stops(forms: tuple, behind: bytes, status: int) -> None:  # type: ignore[type-arg]
    data = run(3)
    assert forms[0](data + behind, BASE)[1:] == (len(data), status)


def test_a_record_whose_parts_do_not_add_up_is_told_from_one_that_is_none(forms: tuple) -> None:  # type: ignore[type-arg]
    data = bytearray(record(BASE))
    data[87] += 1  # the body's length
    assert forms[0](bytes(data), BASE)[1:] == (0, BAD_LENGTH)


def test_the_next_record_is_found_behind_any_bytes(forms: tuple) -> None:  # type: ignore[type-arg]
    broken = bytearray(run(4))
    second = len(record(0, b""))
    third = second + len(record(0, b"x"))
    broken[second] ^= 0x40  # its size
    assert forms[0](bytes(broken), BASE)[1] == second
    assert forms[1](bytes(broken), second, BASE) == third
    broken[third + 88] ^= 1  # a body that has not its checksum is not trusted
    assert forms[1](bytes(broken), second, BASE) == third + len(record(0, b"xx"))
    assert forms[1](bytes(100), 0, BASE) == -1
