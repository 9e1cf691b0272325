"""The protocol under random input: nothing is lost, nothing but ProtocolError is raised."""

from __future__ import annotations

import contextlib
import itertools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketlake.base.errors import ProtocolError
from rocketlake.protocol.bodies.body import BodyError
from rocketlake.protocol.bodies.client import ConsumerRunningInfo
from rocketlake.protocol.bodies.heartbeat import Heartbeat
from rocketlake.protocol.bodies.long_text import at_once
from rocketlake.protocol.bodies.offset import ResetOffsets
from rocketlake.protocol.bodies.register import decoding_register_body
from rocketlake.protocol.bodies.route import RouteBody
from rocketlake.protocol.command import Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.fields import HeaderError
from rocketlake.protocol.frame import Codec, FrameReader, decode_frame
from rocketlake.protocol.header_binary import decode_binary_header
from rocketlake.protocol.header_json import decode_json_header
from rocketlake.protocol.headers.pull import PullHeader
from rocketlake.protocol.headers.send import read_send_header
from rocketlake.protocol.language import LANGUAGES
from rocketlake.protocol.limits import WireLimits

int32 = st.integers(-(2**31), 2**31 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
filled = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)  # binary loses empty text
commands = st.builds(
    Command,
    st.integers(-(2**15), 2**15 - 1),
    opaque=int32,
    flag=int32,
    language=st.sampled_from(LANGUAGES),
    version=st.integers(-(2**15), 2**15 - 1),
    remark=st.none() | filled,
    fields=st.none() | st.dictionaries(filled, filled, min_size=1, max_size=8),
    body=st.none() | st.binary(min_size=1, max_size=200),
)
codecs = st.sampled_from(Codec)


def written(command: Command, codec: Codec) -> bytes:
    data = b"".join(bytes(part) for part in Connection(codec).send(command))
    command.codec = codec  # a command read knows how it was written
    return data


def members(command: Command) -> list[object]:
    return [getattr(command, name) for name in Command.__slots__]


@given(commands, codecs)
def test_every_command_comes_back_as_it_was(command: Command, codec: Codec) -> None:
    machine = Connection()
    [read] = machine.receive_data(written(command, codec))
    assert members(read) == members(command)
    assert machine.pending_bytes == 0


@given(st.lists(st.tuples(commands, codecs), max_size=6), st.lists(st.integers(0, 3000), max_size=20))
def test_any_chunking_gives_the_same_commands(sent: list[tuple[Command, Codec]], cuts: list[int]) -> None:
    stream = b"".join(written(command, codec) for command, codec in sent)
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    machine = Connection()
    read = [command for begin, end in itertools.pairwise(edges) for command in machine.receive_data(stream[begin:end])]
    assert [members(command) for command in read] == [members(command) for command, _ in sent]
    assert machine.error is None


@given(st.binary(max_size=300))
@example(b"\x00\x00\x00\x08\x00\x00\x00\x04null")
@example(b"\x00\x00\x00\x19\x01\x00\x00\x15" + bytes(21))
def test_garbage_raises_nothing(data: bytes) -> None:
    machine = Connection(limits=WireLimits(frame_bytes=1000))
    machine.receive_data(data)
    if machine.error is not None:
        with pytest.raises(ProtocolError):
            machine.receive_data(b"")


@given(st.binary(max_size=120), st.sampled_from([0, 1]))
def test_a_frame_of_garbage_raises_protocol_error_or_is_read(header: bytes, kind: int) -> None:
    with contextlib.suppress(ProtocolError):
        assert isinstance(decode_frame((kind, header, None)), Command)


@given(commands, codecs, st.data())
def test_a_damaged_command_raises_protocol_error_or_is_read(
    command: Command, codec: Codec, data: st.DataObject
) -> None:
    stream = bytearray(written(command, codec))
    for _ in range(data.draw(st.integers(1, 4))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    machine = Connection()
    assert all(isinstance(read, Command) for read in machine.receive_data(bytes(stream)))
    assert machine.error is None or isinstance(machine.error, ProtocolError)


@given(st.binary(max_size=200))
def test_a_binary_header_reads_inside_its_bytes_only(header: bytes) -> None:
    try:
        command = decode_binary_header(header)
    except ProtocolError:
        return
    carried = len((command.remark or "").encode()) + sum(
        len(key.encode()) + len(value.encode()) for key, value in (command.fields or {}).items()
    )
    assert carried <= len(header)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
header_objects = st.fixed_dictionaries(
    {},
    optional={
        "code": json_values,
        "opaque": json_values,
        "flag": json_values,
        "version": json_values,
        "language": json_values,
        "remark": json_values,
        "extFields": json_values,
    },
)


@given(header_objects)
def test_any_json_object_is_read_or_refused_and_can_be_answered(value: dict[str, object]) -> None:
    try:
        command = decode_json_header(json.dumps(value).encode())
    except ProtocolError:
        return
    for codec in Codec:
        assert written(Command.reply(command, remark=command.remark, fields=command.fields), codec)


@given(st.dictionaries(st.sampled_from([*"abcdefghijklmn", "topic", "queueId", "sysFlag"]), text, max_size=17))
def test_any_fields_make_a_header_or_a_header_error(fields: dict[str, str]) -> None:
    for read in (
        lambda: read_send_header(Command(310, fields=fields)),
        lambda: Command(11, fields=fields).header(PullHeader),
    ):
        try:
            read()
        except HeaderError as problem:
            assert len(str(problem)) < 1000


@given(json_values | st.binary(max_size=60))
def test_any_body_is_read_or_a_body_error(value: object) -> None:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    for read in (Heartbeat.decode, RouteBody.decode, ResetOffsets.decode, ConsumerRunningInfo.decode):
        with contextlib.suppress(BodyError):
            assert read(data) is not None
    for compressed in (False, True):
        with contextlib.suppress(BodyError):
            at_once(decoding_register_body(data, compressed=compressed, version=479))


@given(st.lists(st.integers(0, 255), min_size=8, max_size=8).map(bytes))
def test_every_prefix_is_accepted_or_refused_at_once(prefix: bytes) -> None:
    reader = FrameReader(frame_bytes_max=1 << 20)
    frames = reader.feed(prefix)
    total = int.from_bytes(prefix[:4], "big", signed=True)
    plausible = 4 <= total <= 1 << 20 and prefix[4] < 2 and int.from_bytes(prefix[5:8], "big") <= total - 4
    assert (reader.error is None) == (plausible and int.from_bytes(prefix[5:8], "big") <= reader.header_bytes_max)
    assert len(frames) == (total == 4 and reader.error is None)
