"""The kernels that read and write the messages of gRPC by hand, against protobuf and the ordinary conversions."""

from __future__ import annotations

import os
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from rocketlake.client.calls.send import Outgoing, Sender
from rocketlake.codec import property_text
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.command import Codec, Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.convert.outgoing import check, properties_of, sys_flag_of, type_of
from rocketlake.proxy.convert.refusal import Refused, ok
from rocketlake.proxy.convert.times import ms_of, timestamp
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import DigestType, Encoding, MessageType
from tests.proxy_messages import NOW, any_text, messages

if os.environ.get("ROCKETLAKE_PURE") == "1":
    pytest.skip("kernels have a compiled form only", allow_module_level=True)

from rocketlake.proxy.convert.plain_answers import ack_answer, read_acks, send_answer, succeeded
from rocketlake.proxy.convert.plain_messages import SendReader, frames

PEER = "10.0.0.9"
LIMITS = Limits(body_bytes_max=45, user_property_bytes_max=90, message_group_bytes_max=14, user_properties_max=3)
READER = SendReader(LIMITS)
WIDE = SendReader(Limits())

ascii_words = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=16)
shown = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=16).map(
    lambda text: text.strip() or "x"
)


def ordinary_kind(message: Any) -> Any:
    """The message without the fields that are never plain."""
    for name in ("priority", "lite_topic"):
        message.system_properties.ClearField(name)
    if message.system_properties.message_type == MessageType.TRANSACTION:
        message.system_properties.ClearField("delivery_timestamp")
    message.body = message.body or b"x"
    return message


mostly_plain = messages(shown, shown, shown).map(ordinary_kind)


def ordinary(request: bytes, limits: Limits = LIMITS) -> dict[str, Any] | None:
    """What the ordinary path makes of a request of one message; None if it does not take it."""
    try:
        parsed = v2.SendMessageRequest.FromString(request)
    except DecodeError:
        return None
    if len(parsed.messages) != 1:
        return None
    (message,) = parsed.messages
    try:
        check(message, limits, NOW)
    except Refused:
        return None
    system = message.system_properties
    return {
        "topic": message.topic.name.encode(),
        "message_id": system.message_id.encode(),
        "group": system.message_group.encode(),
        "properties": properties_of(message, PEER),
        "sys_flag": sys_flag_of(message),
        "type": type_of(message),
        "born_ms": ms_of(system.born_timestamp) if system.HasField("born_timestamp") else -1,
        "body": message.body,
    }


def plain(request: bytes, reader: SendReader = READER) -> dict[str, Any] | None:
    read = reader.read(request, PEER.encode(), NOW)
    if read is None:
        return None
    return {
        "topic": read.topic,
        "message_id": read.message_id,
        "group": read.group,
        "properties": property_text.decode(read.properties),
        "sys_flag": read.sys_flag,
        "type": read.type,
        "born_ms": read.born_ms,
        "body": bytes(read.body),
    }


def compare(request: bytes) -> None:
    read = plain(request)
    if read is not None:
        assert read == ordinary(request)


def request_of(*sent: Any) -> bytes:
    return bytes(v2.SendMessageRequest(messages=sent).SerializeToString())


def usual(**system: Any) -> Any:
    return v2.Message(
        topic=v2.Resource(resource_namespace="ns", name="orders"),
        user_properties={"color": "dark red", "size": "7"},
        system_properties=v2.SystemProperties(
            **{
                "tag": "t 1",
                "keys": ["k1", "k 2"],
                "message_id": "01020304",
                "body_encoding": Encoding.IDENTITY,
                "message_type": MessageType.NORMAL,
                "born_timestamp": timestamp(NOW - 7),
                "born_host": "client-1",
                "queue_id": 3,
                "body_digest": v2.Digest(type=DigestType.CRC32, checksum="ABC"),
                **system,
            }
        ),
        body=b"\x00body\xff",
    )


@pytest.mark.parametrize(
    "sent",
    [
        usual(),
        usual(body_encoding=Encoding.GZIP),
        usual(message_group="orders-7", message_type=MessageType.FIFO),
        usual(message_type=MessageType.TRANSACTION),
        usual(delivery_timestamp=timestamp(NOW + 1000), message_group="g"),
        usual(delivery_timestamp=timestamp(0)),
        usual(trace_context="00-1", born_host=""),
        v2.Message(topic=v2.Resource(name="T"), system_properties=v2.SystemProperties(message_id="1"), body=b"x"),
    ],
)
def test_usual_messages_are_plain(sent: Any) -> None:
    request = request_of(sent)
    read = plain(request, WIDE)
    assert read is not None
    assert read == ordinary(request, Limits())


@pytest.mark.parametrize(
    "sent",
    [
        usual(priority=0),
        usual(lite_topic="l"),
        usual(delivery_attempt=1),
        usual(tag="größe"),
        usual(tag="a|b"),
        usual(message_id=" "),
        usual(orphaned_transaction_recovery_duration=v2.Duration(seconds=1)),
        usual(message_type=MessageType.TRANSACTION, delivery_timestamp=timestamp(NOW)),
        usual(delivery_timestamp=timestamp(NOW + 24 * 3600 * 1000 + 1)),
        usual(born_timestamp=v2.Timestamp(seconds=-1)),
    ],
)
def test_messages_that_are_not_plain(sent: Any) -> None:
    assert plain(request_of(sent), WIDE) is None


def test_several_messages_are_not_plain() -> None:
    assert plain(request_of(usual(), usual()), WIDE) is None
    assert plain(b"", WIDE) is None


@given(mostly_plain)
def test_drawn_messages(sent: Any) -> None:
    compare(request_of(sent))


@given(messages(any_text, any_text, any_text))
def test_any_messages(sent: Any) -> None:
    compare(request_of(sent))


@given(mostly_plain, mostly_plain, st.sets(st.integers(0, 3)), st.integers(0, 3))
def test_messages_in_parts(first: Any, second: Any, doubled: set[int], cut: int) -> None:
    """protobuf merges a message that comes twice, part by part, and appends lists to lists."""
    first_system, second_system = (each.system_properties.SerializeToString() for each in (first, second))
    parts = [
        field(1, first.topic.SerializeToString()),
        field(2, field(1, b"a") + field(2, b"b")),
        field(3, first_system + (second_system if 3 in doubled else b"")),
        field(4, first.body),
    ]
    again = [
        parts[0],
        field(2, field(1, b"a") + field(2, b"b") + field(1, b"c")),
        field(3, second_system),
        field(4, b"z"),
    ]
    data = b"".join(parts + [again[number] for number in sorted(doubled)])
    compare(field(1, data[: len(data) - cut]))


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def varint(number: int) -> bytes:
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(parts) + bytes([number])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A request with a few bytes changed, taken out or put in."""
    data = bytearray(request_of(draw(mostly_plain)))
    at = draw(st.integers(0, len(data) - 1))
    piece = draw(st.sampled_from((b"a", b"B", b" ", b"|", b"\x01", b"\x80", b"\xff", b"\x98\x06\x01")))
    cut = draw(st.sampled_from((len(piece), len(piece), 0, 2)))
    data[at : at + cut] = piece
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.integers(0, 4)) == 0 else bytes(data)


@given(damaged())
@example(request_of(usual()) + b"\x98\x06\x01")
@example(request_of(usual())[:-1])
def test_damaged_requests(request: bytes) -> None:
    compare(request)


@given(st.binary(max_size=60))
def test_any_bytes(request: bytes) -> None:
    compare(request)
    compare(field(1, request))
    compare(field(1, field(1, field(2, b"T")) + field(3, request) + field(4, b"x")))
    assert read_acks(request) is None or v2.AckMessageRequest.FromString(request).entries


texts = st.text(max_size=20).map(str.encode)


@given(texts, st.integers(0, 2**63 - 1), texts, texts)
@example(b"i" * 300, 0, b"", b"h" * 20_000)
def test_answers_to_sends(message_id: bytes, offset: int, transaction_id: bytes, handle: bytes) -> None:
    entry = v2.SendResultEntry(
        status=ok(),
        message_id=message_id.decode(),
        offset=offset,
        transaction_id=transaction_id.decode(),
        recall_handle=handle.decode(),
    )
    expected = v2.SendMessageResponse(status=ok(), entries=[entry])
    assert send_answer(message_id, offset, transaction_id, handle) == expected.SerializeToString()


@given(st.lists(st.tuples(texts, texts), max_size=4))
def test_answers_to_acknowledgements(entries: list[tuple[bytes, bytes]]) -> None:
    expected = v2.AckMessageResponse(
        status=ok(),
        entries=[
            v2.AckMessageResultEntry(message_id=each[0].decode(), receipt_handle=each[1].decode(), status=ok())
            for each in entries
        ],
    )
    assert ack_answer(entries) == expected.SerializeToString()


@given(ascii_words, ascii_words, st.lists(st.tuples(ascii_words, ascii_words), max_size=3), st.binary(max_size=3))
def test_acknowledgements(group: str, topic: str, entries: list[tuple[str, str]], more: bytes) -> None:
    request = v2.AckMessageRequest(
        group=v2.Resource(name=group, resource_namespace="n"),
        topic=v2.Resource(name=topic),
        entries=[v2.AckMessageEntry(message_id=each[0], receipt_handle=each[1]) for each in entries],
    ).SerializeToString()
    read = read_acks(request)
    expected = group.encode(), topic.encode(), [(each[0].encode(), each[1].encode()) for each in entries]
    assert read == (expected if group and topic and entries else None)
    read = read_acks(request + more)
    if read is not None:
        parsed = v2.AckMessageRequest.FromString(request + more)
        assert read[:2] == (parsed.group.name.encode(), parsed.topic.name.encode())
        assert [each[1].decode() for each in read[2]] == [each.receipt_handle for each in parsed.entries]


def test_acknowledgements_that_are_not_plain() -> None:
    named = {"group": v2.Resource(name="g"), "topic": v2.Resource(name="T")}
    entry = v2.AckMessageEntry(message_id="1", receipt_handle="h")
    lite = v2.AckMessageEntry(message_id="1", receipt_handle="h", lite_topic="l")
    for request in (
        v2.AckMessageRequest(**named),
        v2.AckMessageRequest(**named, entries=[entry, lite]),
        v2.AckMessageRequest(group=named["group"], entries=[entry]),
        v2.AckMessageRequest(**named, entries=[v2.AckMessageEntry(message_id="ä", receipt_handle="h")]),
    ):
        assert read_acks(request.SerializeToString()) is None


@given(mostly_plain, mostly_plain, st.integers(0, 2**31 - 1), st.integers(0, 9))
@example(usual(), usual(), 2**31 - 1, 0)
def test_requests_to_the_broker(first: Any, second: Any, opaque: int, queue_id: int) -> None:
    """They are those of the client, byte for byte."""
    read = [WIDE.read(request_of(each), PEER.encode(), NOW) for each in (first, second)]
    plain_ones = [each for each in read if each is not None]
    queue = MessageQueue("T", "broker-a", queue_id)
    sender = Sender("T")
    expected, fixed = [], []
    for number, message in enumerate(plain_ones):
        outgoing = Outgoing("T", "", bytes(message.body), message.properties, sys_flag=message.sys_flag)
        command = sender.command(outgoing, queue, message.born_ms if message.born_ms >= 0 else NOW)
        command.opaque = (opaque + number) & 0x7FFFFFFF
        expected += encode_command(command)
        fixed.append(sender.fixed_part(outgoing, queue))
    assert frames(plain_ones, fixed, opaque, NOW) == b"".join(expected)


def answer(
    opaque: int, code: int = 0, remark: str | None = None, codec: Codec = Codec.ROCKETMQ, **fields: Any
) -> bytes:
    request = Command.request(RequestCode.SEND_MESSAGE_V2)
    request.opaque = opaque
    known = {"msg_id": "0A", "queue_id": 1, "queue_offset": 17, "transaction_id": "0102", **fields}
    return b"".join(encode_command(Command.reply(request, code, SendReplyHeader(**known), remark), codec))


@pytest.mark.parametrize("codec", Codec)
def test_answers_of_the_broker(codec: Codec) -> None:
    def done(opaque: int, body: bytes | None = None) -> bytes:
        request = Command.request(RequestCode.ACK_MESSAGE)
        request.opaque = opaque
        reply = Command.reply(request, 0)
        reply.body = body
        return b"".join(encode_command(reply, codec))

    pieces = [
        answer(7, codec=codec),
        answer(8, recall_handle="handle", queue_offset=0, codec=codec),
        answer(10, transaction_id=None, codec=codec),
        done(11),
    ]
    data, at, found = b"".join(pieces), 0, []
    for piece in pieces:
        read = succeeded(data, at)
        assert read is not None and read[1] == at + len(piece)
        at = read[1]
        found.append((read[0], *read[2:]))
    assert found == [
        (7, 17, b"0102", b""), (8, 0, b"0102", b"handle"), (10, 17, b"", b""), (11, -1, b"", b""),
    ]  # fmt: skip
    for other in (
        answer(9, code=10, codec=codec),
        answer(9, remark="r", codec=codec),
        done(1, b"x"),
        pieces[0][:-1],
        b"",
    ):
        assert succeeded(other, 0) is None
    with pytest.raises(ValueError):
        succeeded(data, len(data) + 1)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError):
        frames([], [b""], 0, NOW)
    with pytest.raises(ValueError):
        send_answer(b"1", -1, b"", b"")
    with pytest.raises(TypeError):
        ack_answer([(b"1", None)])  # type: ignore[list-item]
