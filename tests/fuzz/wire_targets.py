"""Owns the targets that need no server: frames, headers, records, batches, properties, compression, both twins alike.

Must not know   servers, disks.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from rocketlake.base.errors import ProtocolError
from rocketlake.codec import property_text, record_walk
from rocketlake.codec.compression import compress, decompress, form_at_start
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_batch import batch_entries, encode_batch, entry_starts, has_more
from rocketlake.codec.record_layout import RecordError
from rocketlake.model.message import Message
from rocketlake.model.sys_flag import COMPRESSED, LZ4, ZLIB, ZSTD, mark_compressed
from rocketlake.protocol.command import Codec, Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.frame import FrameReader, decode_frame, encode_command
from rocketlake.protocol.header_binary import encode_binary_header
from rocketlake.protocol.header_json import decode_json_header, encode_json_header
from rocketlake.protocol.limits import WireLimits
from tests.fuzz.bytes_drawn import damaged
from tests.fuzz.target import Target
from tests.parity.forms import built_file, compiled_form, outcome, source_form

GOLDEN = Path(__file__).parents[1] / "golden"
_FRAMES = [path.read_bytes()[:3000] for path in sorted((GOLDEN / "frames").rglob("*.bin"))]
_COMMANDS = [
    Command(310, fields={"a": "p", "b": "T", "i": "KEYS\x01k\x02"}, body=b"body"),
    Command(11, opaque=-1, flag=2, remark="grün", fields={"consumerGroup": "g", "topic": "主"}),
    Command(-7, version=0, fields={}),
]
_HEADERS = {
    Codec.JSON: [encode_json_header(each) for each in _COMMANDS] + [b"null", b"[1]", b'{"code":1e3,"extFields":[]}'],
    Codec.ROCKETMQ: [encode_binary_header(each) for each in _COMMANDS],
}
_LOG = sorted((GOLDEN / "stores/apache-5.3.3-clean/commitlog").iterdir())
_RECORDS = [_LOG[0].read_bytes()[:4000], _LOG[-1].read_bytes()[:1500]]
_BATCHES = [
    encode_batch([Message.with_properties("T", b"one", {"KEYS": "a"}), Message.with_properties("T", b"", {})]),
    encode_batch([Message.with_properties("T", bytes(300), {"TAGS": "t", "x": "é" * 50}, flag=-1)] * 3),
]
_BLOCKS = [b"KEYS\x01a b\x02TAGS\x01t\x02", "主\x01é\x02WAIT\x01true".encode(), b"\x02\x02\x01\x01=\x02a"]
_BODY = b"a body that is worth it " * 40
_PACKED = {kind: compress(_BODY, kind) for kind in (LZ4, ZSTD, ZLIB)}


def alike(module: str, work: Callable[[Any], Any]) -> None:
    """The source and the compiled twin of a module give the same, or fail with the same words."""
    name = f"rocketlake.{module}"
    if built_file(name) is not None:
        assert outcome(work, (source_form(name),), {}) == outcome(work, (compiled_form(name),), {})


def members(command: Command) -> list[object]:
    return [getattr(command, name) for name in Command.__slots__]


def _frames(case: tuple[bytes, list[int]]) -> None:
    """Any bytes in any chunks: commands and, behind the last sound one, a ProtocolError. All can be answered."""
    data, cuts = case
    machine = Connection(limits=WireLimits(frame_bytes=1 << 16))
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    commands = []
    for begin, end in itertools.pairwise(edges):
        if machine.error is None:
            commands += machine.receive_data(data[begin:end])
    assert machine.error is None or isinstance(machine.error, ProtocolError)
    assert machine.pending_bytes <= len(data)
    for command in commands:
        assert Connection(Codec.JSON).send(Command.reply(command, remark=command.remark, fields=command.fields))

    def cut(form: Any) -> tuple[object, ...]:
        reader = form.FrameReader(1 << 16)
        return reader.feed(data), type(reader.error), str(reader.error), reader.pending_bytes

    alike("protocol.frame", cut)


def _header(codec: Codec, header: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        command = decode_frame((codec, header, None))
        for other in Codec:
            with contextlib.suppress(ProtocolError):  # what one form takes may be too long for the other
                written = b"".join(bytes(part) for part in encode_command(command, other))
                [frame] = FrameReader().feed(written)
                again = decode_frame(frame)
                assert (again.code, again.opaque, again.flag) == (command.code, command.opaque, command.flag)


def _json_header(header: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert isinstance(decode_json_header(header), Command)
    _header(Codec.JSON, header)


def _binary_header(header: bytes) -> None:
    alike("protocol.header_binary", lambda form: members(form.decode_binary_header(header)))
    _header(Codec.ROCKETMQ, header)


def _records(data: bytes) -> None:
    with contextlib.suppress(RecordError):
        assert sum(message.store_size for message in decode_records(data)) <= len(data)
    alike("codec.record", lambda form: form.decode_records(data))
    alike("codec.record", lambda form: form.decode_record(data))
    starts, kind, end = record_walk.walk(data, 0)
    assert (bytes(starts), kind, end) == record_walk.walk_slowly(data, 0)
    assert record_walk.find_record(data, 1, 0) == record_walk.find_record_slowly(data, 1, 0)
    alike("codec.record_parts", lambda form: form.properties_block(data))


def _batch(data: bytes) -> None:
    with contextlib.suppress(RecordError):
        entries = list(batch_entries(data))
        assert sum(22 + len(body) + len(named) for _, body, named in entries) == len(data)
        assert len(entry_starts(data)) >= len(entries)
        assert not has_more(data, len(entries))


def _properties(case: tuple[bytes, bytes]) -> None:
    block, name = case
    alike("codec.property_text", lambda form: form.decode(block))
    alike("codec.property_text", lambda form: form.find(block, name))
    found = property_text.decode(block)
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in found.items())


def _compressed(case: tuple[int, bytes, int]) -> None:
    kind, data, limit = case
    with contextlib.suppress(RecordError):
        assert len(decompress(data, mark_compressed(0, kind), limit)) <= limit
    with contextlib.suppress(RecordError):
        assert isinstance(form_at_start(data, COMPRESSED | kind << 8), int)


TARGETS = [
    Target("frames", st.tuples(damaged(_FRAMES), st.lists(st.integers(0, 4000), max_size=6)), _frames, 150),
    Target("header-json", damaged(_HEADERS[Codec.JSON]), _json_header, 400),
    Target("header-binary", damaged(_HEADERS[Codec.ROCKETMQ]), _binary_header, 400),
    Target("records", damaged(_RECORDS), _records, 150),
    Target("batches", damaged(_BATCHES), _batch, 300),
    Target("properties", st.tuples(damaged(_BLOCKS), st.binary(min_size=1, max_size=4)), _properties, 300),
    Target(
        "compression",
        st.sampled_from(list(_PACKED)).flatmap(
            lambda kind: st.tuples(st.just(kind), damaged([_PACKED[kind]]), st.sampled_from([0, 10, 1000, 1 << 20]))
        ),
        _compressed,
        300,
    ),
]
