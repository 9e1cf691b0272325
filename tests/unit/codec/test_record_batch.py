from __future__ import annotations

import struct

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.codec.record_batch import batch_body, decode_batch, encode_batch, entry_starts, unwrap_batch
from rocketlake.codec.record_layout import RecordError
from rocketlake.model.message import Message, StoredMessage

MESSAGES = [Message("T", b"one", tags="A"), Message("T", b"", flag=-5), Message("T", b"three", keys="k")]


def test_the_bytes_of_an_entry_one_by_one():
    assert encode_batch(MESSAGES[:1]) == (
        struct.pack(">iiiii", 32, 0, 0, 0, 3) + b"one" + struct.pack(">h", 7) + b"TAGS\x01A\x02"
    )


def test_what_was_batched_comes_back_in_order():
    entries = decode_batch(encode_batch(MESSAGES))
    assert entries == [(0, b"one", b"TAGS\x01A\x02"), (-5, b"", b""), (0, b"three", b"KEYS\x01k\x02")]
    assert decode_batch(b"") == []


def test_the_bytes_of_a_body_with_keys():
    body = batch_body([Message("T", b"one"), Message("T", b"2", flag=-5)], [b"TAGS\x01A\x02", b""], ["K1", None])
    assert body == (
        struct.pack(">iiiii", 44, 0, 0, 0, 3)
        + b"one"
        + struct.pack(">h", 19)
        + b"TAGS\x01A\x02UNIQ_KEY\x01K1\x02"
        + struct.pack(">iiiii", 23, 0, 0, -5, 1)
        + b"2\0\0"
    )


def test_too_many_messages_are_refused():
    body = encode_batch(MESSAGES)
    assert len(decode_batch(body, messages_max=3)) == 3
    with pytest.raises(RecordError, match="more than 2"):
        decode_batch(body, messages_max=2)


def test_a_broken_batch_is_refused_as_a_whole():
    body = encode_batch(MESSAGES)
    boundaries = {0, 32, 32 + 22}
    for end in set(range(len(body))) - boundaries:
        with pytest.raises(RecordError):
            decode_batch(body[:end])
    for position, number in ((0, 0), (0, -1), (0, 10**9), (0, 31), (16, -1), (16, 10**9), (16, 4), (23, 2**31 - 1)):
        broken = bytearray(body)
        struct.pack_into(">i", broken, position, number)
        with pytest.raises(RecordError):
            decode_batch(broken)


def test_where_the_entries_begin():
    body = encode_batch(MESSAGES)
    assert entry_starts(body) == [0, 32, 54]
    assert decode_batch(body[entry_starts(body)[1] :]) == decode_batch(body)[1:]
    assert entry_starts(b"") == []
    for broken in (body[:-1], body[:40], struct.pack(">i", 21) + body[4:], struct.pack(">i", -1) + body[4:]):
        with pytest.raises(RecordError, match="no batch entry"):
            entry_starts(broken)


def test_properties_that_do_not_fit_are_refused():
    with pytest.raises(RecordError, match="do not fit"):
        encode_batch([Message("T", properties={"a": "x" * 33_000})])
    with pytest.raises(UsageError):
        encode_batch([Message("T", properties={"a": "\x01"})])


def test_the_messages_of_one_record_count_up_from_its_offset():
    outer = StoredMessage(
        "T", encode_batch(MESSAGES), sys_flag=192, queue_offset=40, queue_id=2, broker_name="b", born_ms=7,
        store_host=("1.2.3.4", 5), physical_offset=99,
    )  # fmt: skip
    inner = unwrap_batch(outer)
    assert [message.queue_offset for message in inner] == [40, 41, 42]
    assert [message.body for message in inner] == [b"one", b"", b"three"]
    assert [(message.tags, message.keys, message.flag) for message in inner] == [
        ("A", None, 0),
        (None, None, -5),
        (None, "k", 0),
    ]
    assert {(m.broker_name, m.queue_id, m.born_ms, m.store_host, m.physical_offset) for m in inner} == {
        ("b", 2, 7, ("1.2.3.4", 5), 99)
    }


@pytest.mark.parametrize("flag", [0, 64, 128])
def test_an_ordinary_record_holds_itself(flag):
    outer = StoredMessage("T", b"body", sys_flag=flag)
    assert unwrap_batch(outer) == [outer]
