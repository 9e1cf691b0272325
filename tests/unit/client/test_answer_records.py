"""Reading an answer around its damaged records."""

from __future__ import annotations

import gzip
import struct
import zlib

import pytest

from rocketlake.client.calls.records import Found, read_records
from rocketlake.model.message_queue import MessageQueue
from tests.unit.client.records import stored_record

QUEUE = MessageQueue("T", "b", 0)


def answer(count: int = 5) -> list[bytearray]:
    return [bytearray(stored_record(b"body %d" % n, queue_offset=10 + n)) for n in range(count)]


def read(records: list[bytearray], first: int = 10, end: int = 15) -> Found:
    return read_records(b"".join(records), QUEUE, (first, end))


def bodies(found: Found) -> list[int]:
    return [int(message.body.split()[1]) for message in found.messages]


def test_a_sound_answer_is_read_as_it_is() -> None:
    found = read(answer())
    assert bodies(found) == [0, 1, 2, 3, 4]
    assert found.damaged == [] and found.ends_at is None
    assert {message.broker_name for message in found.messages} == {"b"}


@pytest.mark.parametrize("bad", range(5))
def test_a_wrong_checksum_costs_one_message(bad: int) -> None:
    records = answer()
    records[bad][90] ^= 1  # in the body
    found = read(records)
    assert bodies(found) == [n for n in range(5) if n != bad]
    (damaged,) = found.damaged
    assert damaged.offset == 10 + bad and "checksum" in damaged.reason
    assert damaged.message is not None and damaged.message.body != b"body %d" % bad
    assert found.ends_at is None


def test_a_body_that_is_not_compressed_as_it_says_costs_one_message() -> None:
    records = answer()
    broken = zlib.compress(b"body 2")[:-1]
    records[2] = bytearray(stored_record(broken, queue_offset=12))
    struct.pack_into(">i", records[2], 36, 1)
    found = read(records)
    assert bodies(found) == [0, 1, 3, 4]
    (damaged,) = found.damaged
    assert damaged.message is not None and damaged.message.body == broken
    assert "compressed body" in damaged.reason


def test_a_body_in_no_compressed_form_is_read_as_it_is_and_gzip_is_unpacked() -> None:
    """Apache's proxy stores both with the mark of zlib."""
    records = answer()
    records[3] = bytearray(stored_record(gzip.compress(b"body 3", mtime=0), queue_offset=13))
    for record in records[2:4]:
        struct.pack_into(">i", record, 36, 1)
    found = read(records)
    assert (bodies(found), found.damaged) == ([0, 1, 2, 3, 4], [])


@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 0), (0, -1), (0, 95), (0, 2**31 - 1), (4, 0), (4, -875286124), (84, -1), (84, 2**31 - 1), (36, 0x30)],
)
def test_broken_lengths_are_passed_over_to_the_next_sound_record(bad: int, at: int, value: int) -> None:
    records = answer()
    struct.pack_into(">i", records[bad], at, value)
    found = read(records)
    assert bodies(found) == [n for n in range(5) if n != bad]
    (damaged,) = found.damaged
    assert damaged.offset == 10 + bad
    assert found.ends_at is None


def test_a_broken_end_is_read_up_to_the_offset_behind_it() -> None:
    records = answer()
    records[4] = bytearray(len(records[4]))
    found = read(records)
    assert bodies(found) == [0, 1, 2, 3]
    assert [damaged.offset for damaged in found.damaged] == [14]
    assert found.ends_at == 15


def test_an_answer_of_rubbish_moves_one_offset_on() -> None:
    found = read_records(b"\xda\xa3\x20\xa7" * 50, QUEUE, (10, 15))
    assert found.messages == []
    assert [damaged.offset for damaged in found.damaged] == [10]
    assert found.ends_at == 11


@pytest.mark.parametrize("wrong", [-1, 0, 9, 11, 15, 2**62])
def test_a_record_with_an_offset_that_was_not_asked_for_is_damaged(wrong: int) -> None:
    records = answer()
    struct.pack_into(">q", records[2], 20, wrong)
    found = read(records)
    assert bodies(found) == [0, 1, 3, 4]
    (damaged,) = found.damaged
    assert damaged.offset == 12 and damaged.message is not None and damaged.message.body == b"body 2"


def test_gaps_between_offsets_are_filtered_messages() -> None:
    found = read([record for number, record in enumerate(answer()) if number in (1, 4)])
    assert bodies(found) == [1, 4]
    assert found.damaged == []


def test_a_record_inside_a_body_is_not_taken_for_one() -> None:
    inner = stored_record(b"body 9", queue_offset=2)
    records = answer()
    records[2] = bytearray(stored_record(inner, queue_offset=12))
    records[2][4] = 0
    found = read(records)
    assert bodies(found) == [0, 1, 3, 4]


def test_a_bomb_costs_one_message() -> None:
    records = answer()
    records[1] = bytearray(stored_record(zlib.compress(bytes(100 * 1024 * 1024), 1), queue_offset=11))
    struct.pack_into(">i", records[1], 36, 1)
    found = read(records)
    assert bodies(found) == [0, 2, 3, 4]
    assert "becomes more than" in found.damaged[0].reason


@pytest.mark.parametrize("bad", [(0,), (4,), (1, 2), (0, 2, 4)])
def test_records_are_told_in_the_order_of_the_answer(bad: tuple[int, ...]) -> None:
    records = answer()
    for number in bad:
        records[number][90] ^= 1  # in the body
    assert [message and message.queue_offset for message in read(records).in_order()] == [10, 11, 12, 13, 14]


def test_a_record_without_a_size_keeps_its_place() -> None:
    records = answer()
    struct.pack_into(">i", records[2], 0, 7)
    assert [message and message.queue_offset for message in read(records).in_order()] == [10, 11, None, 13, 14]
