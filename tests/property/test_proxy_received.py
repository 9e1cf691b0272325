"""The kernel that writes the messages of a pop for gRPC clients, against the ordinary conversions."""

from __future__ import annotations

import gzip
import os
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketlake.base.crc32 import crc32
from rocketlake.codec.compression import compress
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import decode_record, encode_record
from rocketlake.codec.record_layout import RecordError
from rocketlake.model import property_names as names
from rocketlake.model.sys_flag import BORN_HOST_V6, ZSTD, mark_compressed
from rocketlake.protocol.headers.pop import PopReplyHeader
from rocketlake.proxy.convert.incoming import message_of
from rocketlake.proxy.convert.receipts import receipts
from rocketlake.proxy.convert.taken import plainly_taken, taken
from rocketlake.proxy.v2 import messages as v2

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.proxy.convert.received import ReceivedWriter

RETRIES_MAX = 16
POP_MS, INVISIBLE_MS, REVIVE_QUEUE, BROKER = 1_700_000_000_000, 60_500, 3, "broker-a"
REPLY = PopReplyHeader(
    pop_time=POP_MS, invisible_time=INVISIBLE_MS, revive_qid=REVIVE_QUEUE, rest_num=0, start_offset_info="0 2 5;0 0 7"
)
HOST = encode_host("10.0.0.5", 10911)


def writer(topic: str = "T", invisible_ms: int = INVISIBLE_MS) -> ReceivedWriter:
    return ReceivedWriter(topic, BROKER, {2: 5, 0: 7}, POP_MS, invisible_ms, REVIVE_QUEUE, RETRIES_MAX)


def record(text: bytes = b"UNIQ_KEY\x010102\x02", body: bytes = b"body", topic: bytes = b"T", **fields: Any) -> bytes:
    usual: dict[str, Any] = {
        "queue_id": 2,
        "flag": 0,
        "queue_offset": 105,
        "physical_offset": 987_654,
        "sys_flag": 0,
        "born_ms": 1_700_000_000_123,
        "born_host": HOST,
        "store_ms": 1_700_000_000_000,
        "store_host": HOST,
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body_crc": crc32(body),
    }
    return bytes(encode_record(topic, body, text, **{**usual, **fields}))


def compare(data: bytes) -> bool:
    """True if the record is plain; then it must be what the ordinary path makes of it."""
    (found,) = writer().write(data)
    assert (found.start, found.end) == (0, len(data))
    if found.response is None:
        assert found.handle is None and found.message_id is None
        return False
    stored = decode_record(data, decompress=False)
    (receipt,) = receipts(REPLY, [stored], BROKER)
    assert found.handle == str(receipt).encode()
    expected = message_of(stored, str(receipt), INVISIBLE_MS)
    assert v2.ReceiveMessageResponse.FromString(found.response) == v2.ReceiveMessageResponse(message=expected)
    assert found.message_id == expected.system_properties.message_id.encode()
    return True


FULL = (
    b"color\x01dark red\x02TAGS\x01t\x02KEYS\x01k1  k2\x02UNIQ_KEY\x010102\x02__SHARDINGKEY\x01g\x02"
    b"TRACE_CONTEXT\x0100-1\x02__BORNHOST\x01client\x02BORN_TIMESTAMP\x015\x02CLUSTER\x01c\x02WAIT\x01true\x02"
)


@pytest.mark.parametrize(
    "data",
    [
        record(),
        record(FULL),
        record(FULL[:-1]),
        record(FULL + b"WAIT\x01true\x02"),
        record(b"a\x011\x02UNIQ_KEY\x010102\x02a\x011\x02"),
        record(b"TRAN_MSG\x01true\x02PGROUP\x01T\x02UNIQ_KEY\x010102\x02"),
        record(queue_id=0, queue_offset=0, physical_offset=0, born_ms=0, store_ms=999, reconsume_times=15),
        record(queue_offset=1 << 40),
        record(body=gzip.compress(b"x" * 1000), sys_flag=1),
        record(body=b"", body_crc=0),
        record(body=bytes(70_000)),
        record(b"a\x01%b\x02UNIQ_KEY\x010102\x02" % (b"x" * 29_000)),
    ],
)
def test_usual_records_are_plain(data: bytes) -> None:
    assert compare(data)


@pytest.mark.parametrize(
    "data",
    [
        record(topic=b"%RETRY%g_T"),
        record(topic=b"other"),
        record(b""),
        record(b"UNIQ_KEY\x010102\x02POP_CK\x011 2 3\x02"),
        record(b"UNIQ_KEY\x010102\x02TIMER_DELIVER_MS\x015\x02"),
        record(b"UNIQ_KEY\x010102\x02_SYS_MSG_PRIORITY_\x015\x02"),
        record(b"UNIQ_KEY\x010102\x02a\x01gr\xc3\xb6\x02"),
        record(b"UNIQ_KEY\x010102\x02a\x011\x02a\x012\x02"),
        record(FULL + b"WAIT\x01false\x02"),
        record(b"UNIQ_KEY\x010102\x02a\x01\x02"),
        record(b"UNIQ_KEY\x010102\x02a\x02"),
        record(b"KEYS\x01" + b"k " * 600 + b"\x02UNIQ_KEY\x010102\x02"),
        record(b"a\x01%b\x02UNIQ_KEY\x010102\x02" % (b"x" * 31_000)),
        record(body=compress(b"x" * 99, ZSTD), sys_flag=mark_compressed(0, ZSTD)),
        record(body=compress(b"x" * 99), sys_flag=1),
        record(sys_flag=BORN_HOST_V6, born_host=encode_host("::1", 1)),
        record(body_crc=1),
        record(queue_offset=-1),
        record(queue_id=7),
        record(reconsume_times=RETRIES_MAX + 1),
    ],
)
def test_records_that_are_not_plain(data: bytes) -> None:
    assert not compare(data)


def test_many_records() -> None:
    pieces = [
        record(queue_offset=105),
        record(topic=b"other"),
        record(queue_id=0, queue_offset=9),
        record(queue_id=4, queue_offset=10),
    ]
    data = b"".join(pieces)
    found = writer().write(data + record()[:50])
    assert [data[each.start : each.end] for each in found] == pieces
    assert [each.response is None for each in found] == [False, True, False, True]
    start = f"{POP_MS} {INVISIBLE_MS} {REVIVE_QUEUE} 0 {BROKER}"
    assert [each.handle for each in found] == [
        f"5 {start} 2 105 987654".encode(),
        None,
        f"7 {start} 0 9 987654".encode(),
        None,
    ]


def test_a_topic_with_a_namespace() -> None:
    (found,) = writer("ns%T", 0).write(record(topic=b"ns%T"))
    message = v2.ReceiveMessageResponse.FromString(found.response).message
    assert message.topic == v2.Resource(resource_namespace="ns", name="T")
    assert not message.system_properties.HasField("invisible_duration")


def test_names_that_do_not_fit() -> None:
    for broker in ("", "b" * 128, "größe"):
        with pytest.raises(ValueError):
            ReceivedWriter("T", broker, {}, 1, 2, 3, 4)


all_names = st.sampled_from(sorted(names.SYSTEM)) | st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=9
)
values = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=12)
odd_values = values | st.sampled_from(("", "true", "5", "ä", "\x00", "a\x01b"))
pairs = st.lists(st.tuples(all_names, values), max_size=6)
odd_pairs = st.lists(st.tuples(all_names, odd_values), max_size=6)
flags = st.sampled_from((0, 0, 0, 1, 4, 8, 12, 0x301, 0x101, 64, 128))


def text_of(properties: list[tuple[str, str]]) -> bytes:
    return "".join(f"{name}\x01{value}\x02" for name, value in [*properties, ("UNIQ_KEY", "0102")]).encode()


@given(pairs | odd_pairs, st.binary(max_size=40), flags, st.integers(0, 5), st.integers(0, 1 << 40), st.booleans())
def test_any_record(
    properties: list[tuple[str, str]], body: bytes, flag: int, queue_id: int, number: int, packed: bool
) -> None:
    body = gzip.compress(body) if packed else body
    compare(
        record(
            text_of(properties),
            body,
            sys_flag=flag,
            queue_id=queue_id,
            queue_offset=number,
            physical_offset=number,
            born_ms=number,
            store_ms=number,
            reconsume_times=queue_id,
        )
    )


@given(pairs, st.integers(0, 10_000), st.binary(min_size=1, max_size=4), st.booleans())
@example([], 4, b"\xff", False)
def test_damaged_records(properties: list[tuple[str, str]], at: int, piece: bytes, is_cut: bool) -> None:
    data = bytearray(record(FULL + text_of(properties)[:-15]))
    at = 4 + at % (len(data) - 4)
    piece = piece[: len(data) - at]
    data[at : at + len(piece)] = piece
    if is_cut:
        assert writer().write(bytes(data[:at])) == []
        return
    (found,) = writer().write(bytes(data))
    try:
        decode_record(bytes(data), decompress=False)
    except RecordError:
        assert found.response is None
    else:
        compare(bytes(data))


@given(st.lists(st.tuples(pairs, st.binary(max_size=30), st.sampled_from((2, 2, 0))), min_size=1, max_size=4))
def test_a_whole_answer(drawn: list[tuple[list[tuple[str, str]], bytes, int]]) -> None:
    pieces = [record(text_of(each), body, queue_id=queue_id) for each, body, queue_id in drawn]
    plain = plainly_taken(b"".join(pieces), REPLY, "T", BROKER, INVISIBLE_MS, RETRIES_MAX)
    if plain is None:
        assert not all(compare(piece) for piece in pieces)
        return
    stored = [decode_record(piece, decompress=False) for piece in pieces]
    expected = [taken(*both, INVISIBLE_MS) for both in zip(stored, receipts(REPLY, stored, BROKER), strict=True)]
    assert [each.handle for each in plain] == [each.handle for each in expected]
    assert [each.receipt for each in plain] == receipts(REPLY, stored, BROKER)
    read = v2.ReceiveMessageResponse.FromString
    assert [read(each.response) for each in plain] == [read(each.response) for each in expected]


@pytest.mark.parametrize(
    ("changed", "records"),
    [
        ({"start_offset_info": None}, record()),
        ({"start_offset_info": "0 2"}, record()),
        ({"start_offset_info": "0 2 x"}, record()),
        ({"start_offset_info": "1 2 5"}, record()),
        ({"order_count_info": "0 2 1"}, record()),
        ({"invisible_time": INVISIBLE_MS + 1}, record()),
        ({}, record() + record(topic=b"%RETRY%g_T")),
        ({}, record() + record()[:-1]),
        ({}, b""),
    ],
)
def test_answers_that_the_ordinary_way_reads(changed: dict[str, Any], records: bytes) -> None:
    fields = {"pop_time": POP_MS, "invisible_time": INVISIBLE_MS, "revive_qid": 3, "rest_num": 0}
    reply = PopReplyHeader(**{**fields, "start_offset_info": "0 2 5", **changed})
    assert plainly_taken(records, reply, "T", BROKER, INVISIBLE_MS, RETRIES_MAX) is None
