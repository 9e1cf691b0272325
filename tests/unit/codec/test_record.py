from __future__ import annotations

import struct
import zlib

import pytest

from rocketlake.codec.compression import compress
from rocketlake.codec.host import encode_host
from rocketlake.codec.property_text import encode
from rocketlake.codec.record import (
    decode_record,
    decode_records,
    encode_blank,
    encode_record,
    iter_records,
    record_size,
)
from rocketlake.codec.record_layout import MAGIC_V1, MAGIC_V2, RecordError
from rocketlake.model.message import StoredMessage

V4 = encode_host("10.0.0.1", 5000)
V6 = encode_host("::1", 5000)


def write(topic=b"T", body=b"hello", properties=b"", **changes):
    fields = {
        "queue_id": 1, "flag": 2, "queue_offset": 3, "physical_offset": 4, "sys_flag": 0, "born_ms": 5, "born_host": V4,
        "store_ms": 6, "store_host": V4, "reconsume_times": 7, "prepared_transaction_offset": 8,
        "body_crc": zlib.crc32(body) & 0x7FFFFFFF,
    }  # fmt: skip
    return encode_record(topic, body, properties, **fields | changes)


def test_the_bytes_of_a_record_one_by_one():
    record = write(properties=b"a\x01b\x02")
    assert record == (
        bytes.fromhex("00000065 DAA320A7") + struct.pack(">i", zlib.crc32(b"hello") & 0x7FFFFFFF)
        + struct.pack(">iiqqi", 1, 2, 3, 4, 0) + struct.pack(">q", 5) + b"\x0a\0\0\1\0\0\x13\x88"
        + struct.pack(">q", 6) + b"\x0a\0\0\1\0\0\x13\x88" + struct.pack(">iq", 7, 8)
        + b"\0\0\0\5hello" + b"\1T" + b"\0\4a\1b\2"
    )  # fmt: skip


def test_reading_gives_back_every_field():
    message = decode_record(write(properties=encode({"TAGS": "A"})))
    assert message == StoredMessage(
        "T", b"hello", properties={"TAGS": "A"}, flag=2, queue_id=1, queue_offset=3, physical_offset=4, sys_flag=0,
        born_ms=5, born_host=("10.0.0.1", 5000), store_ms=6, store_host=("10.0.0.1", 5000), reconsume_times=7,
        prepared_transaction_offset=8, body_crc=zlib.crc32(b"hello") & 0x7FFFFFFF, store_size=104,
    )  # fmt: skip


@pytest.mark.parametrize(("topic_bytes", "magic", "size"), [(127, MAGIC_V1, 91 + 127), (128, MAGIC_V2, 92 + 128)])
def test_a_topic_longer_than_127_bytes_makes_a_v2_record(topic_bytes, magic, size):
    record = write(topic=b"T" * topic_bytes, body=b"")
    assert struct.unpack_from(">ii", record) == (size, magic)
    assert len(record) == size == record_size(topic_bytes, 0, 0)
    assert decode_record(record).topic == "T" * topic_bytes


@pytest.mark.parametrize(("born", "store", "flag"), [(V4, V4, 0), (V6, V4, 16), (V4, V6, 32), (V6, V6, 48)])
def test_the_system_flag_tells_the_sizes_of_the_hosts(born, store, flag):
    record = write(born_host=born, store_host=store, sys_flag=48 ^ flag)
    message = decode_record(record)
    assert message.sys_flag == flag
    assert (message.born_host[0], message.store_host[0]) == tuple(
        "10.0.0.1" if h is V4 else "::1" for h in (born, store)
    )
    assert len(record) == record_size(1, 5, 0, len(born), len(store))


def test_a_wrong_checksum_is_noticed_unless_not_asked_for():
    record = write(body_crc=1)
    with pytest.raises(RecordError, match="checksum"):
        decode_record(record)
    assert decode_record(record, check_crc=False).body == b"hello"
    assert decode_record(write(body=b"", body_crc=1)).body == b""


def test_a_compressed_body_is_unpacked_unless_not_asked_for():
    packed = compress(b"plain" * 100, 3)
    record = write(body=packed, sys_flag=769)
    message = decode_record(record)
    assert (message.body, message.sys_flag) == (b"plain" * 100, 769)
    assert decode_record(record, decompress=False).body == packed
    with pytest.raises(RecordError, match="more than 499"):
        decode_record(record, body_bytes_max=499)
    with pytest.raises(RecordError, match="broken"):
        decode_record(write(body=b"\x78\x9cno zlib", sys_flag=1))
    assert decode_record(write(body=b"no zlib", sys_flag=1)).body == b"no zlib"


def test_text_that_is_no_utf8_is_read_as_java_reads_it():
    message = decode_record(write(topic=b"a\xff", properties=b"k\x01\xfe\x02"))
    assert (message.topic, message.properties) == ("a\ufffd", {"k": "\ufffd"})


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": b"T" * 32768}, {"properties": b"x" * 32768}, {"born_host": b"1234"}, {"store_host": b""},
        {"queue_id": 2**31}, {"queue_offset": -(2**63) - 1}, {"body_crc": 2**31}, {"flag": "1"},
    ],
)  # fmt: skip
def test_what_does_not_fit_a_record_is_refused(changes):
    with pytest.raises(RecordError):
        write(**changes)


@pytest.mark.parametrize(
    ("position", "number", "text"),
    [
        (0, 0, "claims 0 bytes"),
        (0, -1, "claims -1 bytes"),
        (0, 2**31 - 1, "claims 2147483647 bytes"),
        (0, 90, "claims 90 bytes"),
        (4, 0, "magic 0x00000000"),
        (4, -875286124, "magic 0xcbd43194"),
        (84, -1, "body of -1"),
        (84, 2**31 - 1, "body of 2147483647"),
        (84, 6, "do not fill|topic"),
    ],
)
def test_lying_lengths_are_refused(position, number, text):
    record = write()
    struct.pack_into(">i", record, position, number)
    with pytest.raises(RecordError, match=text):
        decode_record(record)


def test_lying_short_lengths_are_refused():
    for position, value in ((93, 0), (93, 2), (93, 127), (93, 128), (93, 255), (96, 1), (95, 0xFF)):
        record = write()
        record[position] = value
        with pytest.raises(RecordError):
            decode_record(record)
    record = write(topic=b"T" * 200)
    struct.pack_into(">h", record, 88 + 5, -1)
    with pytest.raises(RecordError, match="topic"):
        decode_record(record)


def test_no_cut_of_a_record_is_a_record():
    record = write(properties=b"a\x01b\x02")
    for end in range(len(record)):
        with pytest.raises(RecordError):
            decode_record(record[:end])
        with pytest.raises(RecordError):
            decode_record(memoryview(record), len(record) - end)


@pytest.mark.parametrize("topic", [b"T", b"T" * 128])
def test_no_changed_length_anywhere_gives_anything_but_a_record_or_an_error(topic):
    whole = bytes(write(topic=topic, properties=b"a\x01b\x02"))
    read = 0
    for position in range(len(whole) - 3):
        for number in (-1, 0, 1, 90, 127, 128, 32767, 2**31 - 1, -(2**31)):
            broken = bytearray(whole)
            struct.pack_into(">i", broken, position, number)
            for check_crc in (True, False):
                try:
                    read += decode_record(broken, check_crc=check_crc).store_size == len(whole)
                except RecordError:
                    continue
    assert read > 100  # numbers without a rule of their own: queue id, offsets, times


def test_a_record_with_long_hosts_needs_more_room():
    record = write(topic=b"", body=b"", born_host=V6, store_host=V6)
    assert len(record) == 115
    for end in range(91, 115):
        with pytest.raises(RecordError, match=r"too few|claims"):
            decode_record(record[:end])


def test_records_back_to_back_end_at_the_first_that_is_broken():
    whole = bytes(write() + write(body=b"second") + write())
    assert [message.body for message in iter_records(whole)] == [b"hello", b"second", b"hello"]
    broken = bytearray(whole)
    broken[len(write()) + 89] ^= 1
    assert [message.body for message in decode_records(broken)] == [b"hello"]
    assert len(decode_records(broken, check_crc=False)) == 3
    for tail in (bytes(50), encode_blank(500), whole[:50]):
        assert len(decode_records(memoryview(whole + tail))) == 3
    assert decode_records(b"") == []


def test_a_blank_says_how_much_of_the_file_is_left():
    assert encode_blank(256) == bytes.fromhex("00000100 CBD43194")
