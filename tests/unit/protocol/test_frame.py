"""Cutting the byte stream, writing commands, refusing lying lengths early."""

from __future__ import annotations

import pytest

from rocketlake.base.errors import ProtocolError
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import Codec, FrameReader, decode_frame, encode_command
from rocketlake.protocol.header_binary import encode_fields
from rocketlake.protocol.limits import FRAME_BYTES_MAX, REMARK_CHARS_MAX


def written(command: Command, codec: Codec = Codec.JSON) -> bytes:
    return b"".join(encode_command(command, codec))


def prefix(total: int, kind: int, header: int) -> bytes:
    return total.to_bytes(4, "big", signed=True) + bytes([kind]) + header.to_bytes(3, "big")


@pytest.mark.parametrize("codec", Codec)
def test_a_frame_says_its_length_type_and_header_length(codec: Codec) -> None:
    data = written(Command(34, body=b"body"), codec)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert data[4] == codec
    assert data[8 + int.from_bytes(data[5:8], "big") :] == b"body"


@pytest.mark.parametrize("codec", Codec)
def test_a_command_comes_back_as_it_was(codec: Codec) -> None:
    command = Command(17, opaque=-5, flag=3, version=401, language="GO", remark="why", fields={"a": "b"}, body=b"xyz")
    read = decode_frame(FrameReader().feed(written(command, codec))[0])
    for name in Command.__slots__:
        wanted = codec if name == "codec" else getattr(command, name)
        assert getattr(read, name) == wanted, name


@pytest.mark.parametrize("codec", Codec)
def test_fields_that_are_bytes_already_make_a_binary_header(codec: Codec) -> None:
    block = encode_fields({"a": "b", "c": "d" * 300})
    read = decode_frame(FrameReader().feed(written(Command(17, opaque=5, block=block, body=b"xyz"), codec))[0])
    assert (read.codec, read.code, read.opaque, read.body) == (Codec.ROCKETMQ, 17, 5, b"xyz")
    assert read.fields == {"a": "b", "c": "d" * 300}


@pytest.mark.parametrize("body", [b"", None, [], [b""]])
def test_an_empty_body_is_no_body(body: object) -> None:
    read = decode_frame(FrameReader().feed(written(Command(1, body=body)))[0])  # type: ignore[arg-type]
    assert read.body is None
    assert read.body_bytes == b""


def test_body_buffers_are_passed_through_without_a_copy() -> None:
    slices = [memoryview(b"first"), memoryview(b"second")]
    buffers = encode_command(Command(1, body=slices))
    assert buffers[1] is slices[0]
    assert buffers[2] is slices[1]


def test_a_code_of_more_than_16_bits_travels_with_a_json_header() -> None:
    data = written(Command(200050), Codec.ROCKETMQ)
    assert data[4] == Codec.JSON
    assert decode_frame(FrameReader().feed(data)[0]).code == 200050


def test_byte_by_byte_gives_the_same_frames() -> None:
    stream = written(Command(1, body=b"a")) + written(Command(2, body=b"bb"), Codec.ROCKETMQ) + written(Command(3))
    reader = FrameReader()
    frames = [frame for position in range(len(stream)) for frame in reader.feed(stream[position : position + 1])]
    assert frames == FrameReader().feed(stream)
    assert len(frames) == 3
    assert reader.pending_bytes == 0


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(prefix(-1, 0, 0), id="negative"),
        pytest.param(prefix(0, 0, 0), id="zero"),
        pytest.param(prefix(3, 0, 0), id="too short"),
        pytest.param(prefix(FRAME_BYTES_MAX + 1, 0, 0), id="one too long"),
        pytest.param(prefix(0x7FFFFFFF, 0, 0), id="length bomb"),
        pytest.param(prefix(20, 0, 17), id="header longer than frame"),
        pytest.param(prefix(20, 2, 5), id="unknown type"),
        pytest.param(prefix(20, 255, 5), id="type 255"),
        pytest.param(prefix(FRAME_BYTES_MAX, 0, 300_000), id="header over its limit"),
    ],
)
def test_a_lying_prefix_is_refused_before_any_more_bytes_come(start: bytes) -> None:
    reader = FrameReader()
    good = written(Command(1))
    assert len(reader.feed(good + start)) == 1
    assert isinstance(reader.error, ProtocolError)
    with pytest.raises(ProtocolError):
        reader.feed(good)


def test_the_largest_frame_is_accepted_and_one_byte_more_is_not_written() -> None:
    header = len(encode_command(Command(1))[0]) - 4
    room = FRAME_BYTES_MAX - header
    assert len(FrameReader().feed(written(Command(1, body=bytes(room))))) == 1
    with pytest.raises(ProtocolError, match="the limit is"):
        encode_command(Command(1, body=bytes(room + 1)))


@pytest.mark.parametrize(
    ("stranger", "hint"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"),
        (b"GET / HTTP/1.1", "HTTP"),
        (b"PROXY TCP4 ", "PROXY"),
        (b"PRI * HTTP/2.0", "gRPC"),
        (b"HTTP/1.1 400 ", "HTTP server"),
    ],
)
def test_strangers_are_named(stranger: bytes, hint: str) -> None:
    reader = FrameReader()
    reader.feed(stranger)
    assert hint in str(reader.error)


def test_an_announced_length_allocates_nothing() -> None:
    reader = FrameReader()
    reader.feed(prefix(FRAME_BYTES_MAX, 0, 10))
    assert reader.pending_bytes == 8


def test_a_remark_is_cut_when_it_is_written() -> None:
    read = decode_frame(FrameReader().feed(written(Command(1, remark="y" * 100_000), Codec.ROCKETMQ))[0])
    assert read.remark == "y" * REMARK_CHARS_MAX


@pytest.mark.parametrize("codec", Codec)
def test_an_answer_has_the_codec_of_its_request(codec: Codec) -> None:
    other = Codec(1 - codec)
    request = decode_frame(FrameReader().feed(written(Command(310), codec))[0])
    assert written(Command.reply(request), other)[4] == codec


def test_gathered_bytes_are_cut_from_any_frame_on() -> None:
    first, second, third = (written(Command(number)) for number in (1, 2, 3))
    reader = FrameReader()
    assert reader.gather((first + second)[:-1]) == (first + second)[:-1]
    assert [decode_frame(frame).code for frame in reader.cut((first + second)[:-1], len(first))] == []
    assert reader.gather(b"") == b""
    ready = reader.gather(second[-1:] + third)
    assert [decode_frame(frame).code for frame in reader.cut(ready)] == [2, 3]
