"""Body of REGISTER_BROKER, plain and compressed.

Owns        its shape, the compressed layout, the checksum in the header.
Must not know   the route table.

Compressed: one zlib stream of: int32 length + DataVersion JSON; int32 count; per topic int32 length + the text
`name readQueues writeQueues perm filterType attributesJSON`; int32 length + JSON array of filter servers; from version
5.0.0 on int32 count and per mapping int32 length + JSON. Unpacking is bounded: a small stream can claim a huge one.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

from msgspec import field

from rocketlake.base import json_text
from rocketlake.protocol.bodies.body import Body, BodyError, decode_as
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.topic import TopicEntry, TopicTable
from rocketlake.protocol.versions import REGISTER_BODY_SINCE, REGISTER_MAPPINGS_SINCE

UNPACKED_BYTES_MAX: Final = 64 * 1024 * 1024
"""About 700,000 topics."""


class RegisterBrokerBody(Body, kw_only=True):
    """Everything a broker tells a name server about its topics."""

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


def decode_register_body(data: bytes | memoryview | None, *, compressed: bool, version: int) -> RegisterBrokerBody:
    """Body of REGISTER_BROKER of a peer with this `version` -> struct. No body = no topics. Raises BodyError."""
    if not data:
        return RegisterBrokerBody()
    if compressed:
        return _decode_compressed(data, version >= REGISTER_MAPPINGS_SINCE)
    if version >= REGISTER_BODY_SINCE:
        return RegisterBrokerBody.decode(data)
    return RegisterBrokerBody(topics=TopicTable.decode(data))


def register_crc(data: bytes | memoryview) -> int:
    """CRC-32 of the body as sent, without its sign bit: `bodyCrc32` of the header."""
    return zlib.crc32(data) & 0x7FFFFFFF


def _decode_compressed(data: bytes | memoryview, with_mappings: bool) -> RegisterBrokerBody:
    reader = _Reader(_unpack(data))
    version = DataVersionBody.decode(reader.block())
    topics: dict[str, TopicEntry] = {}
    for _ in range(reader.number()):
        entry = _parse_topic_text(reader.block())
        topics[entry.topic_name] = entry
    filter_servers = decode_as(list[str], reader.block())
    mappings: dict[str, Any] = {}
    if with_mappings and reader.left:
        for _ in range(reader.number()):
            mapping = decode_as(dict[str, Any], reader.block())
            mappings[str(mapping.get("topic", ""))] = mapping
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


def _unpack(data: bytes | memoryview) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(data, UNPACKED_BYTES_MAX)
    except zlib.error as problem:
        raise BodyError(f"REGISTER_BROKER: the compressed body is damaged: {problem}") from None
    if unpacker.unconsumed_tail:
        raise BodyError(f"REGISTER_BROKER: the compressed body holds more than {UNPACKED_BYTES_MAX} bytes")
    if not unpacker.eof:
        raise BodyError("REGISTER_BROKER: the compressed body ends early")
    return unpacked


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
