"""Body of REGISTER_BROKER, plain and compressed.

Owns        its shape, the compressed layout, the checksum in the header.
Must not know   the route table.

Compressed: one zlib stream of: int32 length + DataVersion JSON; int32 count; per topic int32 length + the text
`name readQueues writeQueues perm filterType attributesJSON`; int32 length + JSON array of filter servers; from version
5.0.0 on int32 count and per mapping int32 length + JSON. Unpacking is bounded: a small stream can claim a huge one.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator
from typing import Any, ClassVar, Final

from msgspec import field

from rocketlake.base.java import json_text
from rocketlake.protocol.bodies.body import UNTYPED_BYTES_MAX, Body, BodyError, decode_as
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.topic import TopicEntry, TopicTable
from rocketlake.protocol.bodies.topic_slices import cutting
from rocketlake.protocol.versions import REGISTER_BODY_SINCE, REGISTER_MAPPINGS_SINCE

UNPACKED_BYTES_MAX: Final = 64 * 1024 * 1024
"""About 700,000 topics."""
_PIECE_BYTES: Final = 512 * 1024
_PACKED_BYTES: Final = 16 * 1024
"""Half a megabyte is unpacked or checked in one step at most: about two milliseconds."""

_Topics = dict[str, TopicEntry]


class RegisterBrokerBody(Body, kw_only=True):
    """All topics of a broker, for a name server."""

    untyped_bytes_max: ClassVar[int | None] = UNTYPED_BYTES_MAX
    topics: TopicTable = field(default_factory=TopicTable, name="topicConfigSerializeWrapper")
    filter_servers: list[str] = field(default_factory=list, name="filterServerList")

    def encode_compressed(self) -> bytes:
        """The compressed form with the mapping section (for name servers of 5.x)."""
        parts: list[bytes] = []
        _put(parts, (self.topics.data_version or DataVersionBody()).encode())
        parts.append(len(self.topics.topics).to_bytes(4, "big"))
        for entry in self.topics.topics.values():
            _put(parts, _topic_text(entry))
        _put(parts, json_text.to_text(self.filter_servers))
        mappings = self.topics.topic_queue_mapping_info_map or {}
        parts.append(len(mappings).to_bytes(4, "big"))
        for mapping in mappings.values():
            _put(parts, json_text.to_text(mapping))
        return zlib.compress(b"".join(parts), 9)


def decoding_register_body(
    data: bytes | None, *, compressed: bool, version: int
) -> Generator[None, None, RegisterBrokerBody]:
    """Body of REGISTER_BROKER of a peer with this `version` -> struct, some topics a step. No body = no topics.

    Raises BodyError.
    """
    if not data:
        return RegisterBrokerBody()
    if compressed:
        return (yield from _decoding_compressed(data, version >= REGISTER_MAPPINGS_SINCE))
    cut = yield from cutting(data, "REGISTER_BROKER")
    rest, first, others = cut or (data, None, [])
    if version >= REGISTER_BODY_SINCE:
        body = RegisterBrokerBody.decode(rest)
    else:
        body = RegisterBrokerBody(topics=TopicTable.decode(rest))
    topics = body.topics.topics
    if first is not None and decode_as(_Topics, first) != topics:
        raise BodyError("REGISTER_BROKER: topicConfigTable is not at its place")
    for each in others:
        topics.update(decode_as(_Topics, each))
        yield
    return body


def register_crc(data: bytes | memoryview) -> int:
    """CRC-32 of the body as sent, without its sign bit: `bodyCrc32` of the header."""
    return zlib.crc32(data) & 0x7FFFFFFF


def checking(data: bytes) -> Generator[None, None, int]:
    """The same of a long body, in steps."""
    crc = 0
    for start in range(0, len(data), _PIECE_BYTES):
        crc = zlib.crc32(memoryview(data)[start : start + _PIECE_BYTES], crc)
        yield
    return crc & 0x7FFFFFFF


def _decoding_compressed(data: bytes, with_mappings: bool) -> Generator[None, None, RegisterBrokerBody]:
    reader = _Reader((yield from _unpacking(data)))
    version = DataVersionBody.decode(reader.block())
    topics: dict[str, TopicEntry] = {}
    for _ in range(reader.number()):
        entry = _parse_topic_text(reader.block())
        topics[entry.topic_name] = entry
        yield
    filter_servers = decode_as(list[str], reader.block())
    mappings: dict[str, Any] = {}
    if with_mappings and reader.left:
        for _ in range(reader.number()):
            mapping = decode_as(dict[str, Any], reader.block())
            mappings[str(mapping.get("topic", ""))] = mapping
            yield
    table = TopicTable(data_version=version, topics=topics, topic_queue_mapping_info_map=mappings)
    return RegisterBrokerBody(topics=table, filter_servers=filter_servers)


class _Reader:
    """Takes numbers and blocks from the unpacked bytes; a length that points outside is a BodyError."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._position

    def number(self) -> int:
        if self.left < 4:
            raise BodyError("REGISTER_BROKER: the compressed body ends early")
        value = int.from_bytes(self._data[self._position : self._position + 4], "big", signed=True)
        self._position += 4
        return value

    def block(self) -> bytes:
        size = self.number()
        if size < 0 or size > self.left:
            raise BodyError(f"REGISTER_BROKER: the compressed body claims {size} bytes, {self.left} are left")
        block = self._data[self._position : self._position + size]
        self._position += size
        return block


def _unpacking(data: bytes) -> Generator[None, None, bytes]:
    """Unpack a part in each step. The claimed size is not trusted."""
    unpacker = zlib.decompressobj()
    pieces: list[bytes] = []
    unpacked_bytes = 0
    for start in range(0, len(data), _PACKED_BYTES):
        packed = data[start : start + _PACKED_BYTES]
        while packed:
            try:
                pieces.append(unpacker.decompress(packed, _PIECE_BYTES))
            except zlib.error as problem:
                raise BodyError(f"REGISTER_BROKER: the compressed body is damaged: {problem}") from None
            unpacked_bytes += len(pieces[-1])
            packed = unpacker.unconsumed_tail
            if unpacked_bytes + bool(packed) > UNPACKED_BYTES_MAX:
                raise BodyError(f"REGISTER_BROKER: the compressed body holds more than {UNPACKED_BYTES_MAX} bytes")
            yield
    if not unpacker.eof:
        raise BodyError("REGISTER_BROKER: the compressed body ends early")
    return b"".join(pieces)


def _put(parts: list[bytes], block: bytes) -> None:
    parts.append(len(block).to_bytes(4, "big"))
    parts.append(block)


def _topic_text(entry: TopicEntry) -> bytes:
    text = (
        f"{entry.topic_name} {entry.read_queue_nums} {entry.write_queue_nums} {entry.perm} {entry.topic_filter_type} "
    )
    return text.encode() + json_text.to_text(entry.attributes)


def _parse_topic_text(block: bytes) -> TopicEntry:
    words = block.decode(errors="replace").split(" ", 5)
    try:
        name, read_queues, write_queues, perm, filter_type = words[:5]
        attributes = decode_as(dict[str, str], words[5].encode()) if len(words) > 5 and words[5] else {}
        return TopicEntry(
            topic_name=name,
            read_queue_nums=int(read_queues),
            write_queue_nums=int(write_queues),
            perm=int(perm),
            topic_filter_type=filter_type,
            attributes=attributes,
        )
    except ValueError:
        raise BodyError(f"REGISTER_BROKER: topic text {block[:100]!r} cannot be read") from None
