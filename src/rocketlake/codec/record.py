"""The commit log record: one message as it lies on disk and in the body of a pull answer.

Owns        size, writing and reading of records, v1 and v2 (topics longer than 127 bytes).
Must not know   files, queues, frames.

Bytes: docs/internals/record.md.  Golden samples: tests/golden/stores/.

Invariant: decode_record(encode_record(x)) == x; any other bytes give RecordError, never another exception.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial

from rocketlake.base.crc32 import crc32
from rocketlake.codec.compression import DECOMPRESSED_BYTES_MAX
from rocketlake.codec.compression import decompress as decompress_body
from rocketlake.codec.host import decode_host
from rocketlake.codec.property_text import decode as decode_properties
from rocketlake.codec.record_layout import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_BYTES_MAX,
    RECORD_BYTES_MIN,
    SYS_FLAG_AT,
    TOPIC_BYTES_MAX,
    TOPIC_BYTES_MAX_V1,
    RecordError,
)
from rocketlake.model.message import StoredMessage
from rocketlake.model.sys_flag import BORN_HOST_V6, COMPRESSED, STORE_HOST_V6

__all__ = [
    "decode_record",
    "decode_records",
    "encode_blank",
    "encode_record",
    "iter_records",
    "record_size",
]

Buffer = bytes | bytearray | memoryview

_HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6
_FIXED_BYTES_MIN = RECORD_BYTES_MIN
_V1 = MAGIC_V1
_V2 = MAGIC_V2
_SYS_FLAG_LOW_AT = SYS_FLAG_AT + 3
"""The byte of the system flag that tells IPv6 hosts."""
_HEAD = ">iiiiiqqiq{born}sq{store}siqi"
_HEADS = (
    struct.Struct(_HEAD.format(born=8, store=8)),
    struct.Struct(_HEAD.format(born=20, store=8)),
    struct.Struct(_HEAD.format(born=8, store=20)),
    struct.Struct(_HEAD.format(born=20, store=20)),
)
"""Everything before the body, by the two IPv6 bits of the system flag (shifted down)."""
_INT = struct.Struct(">i")
_BYTE = struct.Struct(">B")
_SHORT = struct.Struct(">h")
_TWO_INTS = struct.Struct(">ii")


def record_size(
    topic_bytes: int, body_bytes: int, properties_bytes: int, born_host_bytes: int = 8, store_host_bytes: int = 8
) -> int:
    """Bytes of a record with parts of these lengths."""
    fixed = 75 if topic_bytes <= TOPIC_BYTES_MAX_V1 else 76
    return fixed + born_host_bytes + store_host_bytes + topic_bytes + body_bytes + properties_bytes


def encode_record(
    topic: bytes,
    body: Buffer,
    properties: bytes,
    *,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_ms: int,
    born_host: bytes,
    store_ms: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body_crc: int,
) -> bytearray:
    """One record: v1, or v2 if the topic is longer than 127 bytes. The IPv6 bits of `sys_flag` follow the hosts.

    RecordError if a part is too long, or a number does not fit its field.
    """
    topic_bytes = len(topic)
    body_bytes = len(body)
    properties_bytes = len(properties)
    born_bytes = len(born_host)
    store_bytes = len(store_host)
    if topic_bytes > TOPIC_BYTES_MAX or properties_bytes > PROPERTIES_BYTES_MAX:
        raise RecordError(f"topic of {topic_bytes} or properties of {properties_bytes} bytes do not fit a record")
    if born_bytes not in (8, 20) or store_bytes not in (8, 20):
        raise RecordError(f"hosts of {born_bytes} and {store_bytes} bytes")
    sys_flag = (
        sys_flag & ~_HOST_BITS | (BORN_HOST_V6 if born_bytes == 20 else 0) | (STORE_HOST_V6 if store_bytes == 20 else 0)
    )
    is_v1 = topic_bytes <= TOPIC_BYTES_MAX_V1
    size = record_size(topic_bytes, body_bytes, properties_bytes, born_bytes, store_bytes)
    head = _HEADS[(sys_flag & _HOST_BITS) >> 4]
    try:
        fixed = head.pack(
            size, MAGIC_V1 if is_v1 else MAGIC_V2, body_crc, queue_id, flag, queue_offset, physical_offset, sys_flag,
            born_ms, born_host, store_ms, store_host, reconsume_times, prepared_transaction_offset, body_bytes,
        )  # fmt: skip
    except struct.error as error:
        raise RecordError(f"a number does not fit its field: {error}") from error
    topic_length = _BYTE.pack(topic_bytes) if is_v1 else _SHORT.pack(topic_bytes)
    return bytearray().join((fixed, body, topic_length, topic, _SHORT.pack(properties_bytes), properties))


def encode_blank(size: int) -> bytes:
    """The 8 bytes that say: the rest of this file, `size` bytes from here, is empty."""
    return _TWO_INTS.pack(size, MAGIC_BLANK)


def decode_record(
    buffer: Buffer,
    position: int = 0,
    *,
    check_crc: bool = True,
    decompress: bool = True,
    body_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> StoredMessage:
    """The record at `position`. RecordError if there is none, it is cut short, or (if asked) its checksum is wrong.

    With `decompress` a compressed body is given unpacked (at most `body_bytes_max` bytes); the system flag stays.
    """
    data = buffer if isinstance(buffer, bytes) else bytes(memoryview(buffer))
    return _decode(data, position, check_crc, decompress, body_bytes_max, "")


def decode_records(
    buffer: Buffer,
    *,
    check_crc: bool = True,
    decompress: bool = True,
    body_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    broker_name: str = "",
) -> list[StoredMessage]:
    """The records that lie back to back from the start of `buffer`, up to the first that is broken."""
    data = buffer if isinstance(buffer, bytes) else bytes(memoryview(buffer))
    messages: list[StoredMessage] = []
    position = 0
    try:
        while position < len(data):
            message = _decode(data, position, check_crc, decompress, body_bytes_max, broker_name)
            messages.append(message)
            position += message.store_size
    except RecordError:
        pass  # the rule of RocketMQ's clients: the messages before the break count
    return messages


def iter_records(buffer: Buffer, *, check_crc: bool = True, decompress: bool = True) -> Iterator[StoredMessage]:
    """decode_records, as an iterator."""
    return iter(decode_records(buffer, check_crc=check_crc, decompress=decompress))


def _decode(
    data: bytes, position: int, check_crc: bool, decompress: bool, body_bytes_max: int, broker_name: str
) -> StoredMessage:
    left = len(data) - position
    if position < 0 or left < _FIXED_BYTES_MIN:
        raise RecordError(f"{left} bytes at {position} are too few for a record")
    head = _HEADS[(data[position + _SYS_FLAG_LOW_AT] & _HOST_BITS) >> 4]
    head_bytes = head.size
    if left < head_bytes + 3:
        raise RecordError(f"{left} bytes at {position} are too few for a record")
    (
        size, magic, body_crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_ms, born_host, store_ms,
        store_host, reconsume_times, prepared_transaction_offset, body_bytes,
    ) = head.unpack_from(data, position)  # fmt: skip
    if magic != _V1 and magic != _V2:
        raise RecordError(f"no record at {position}: magic {magic & 0xFFFFFFFF:#010x}")
    if size > left or size < head_bytes + 3:
        raise RecordError(f"the record at {position} claims {size} bytes, {left} are there")
    end = position + size
    body_at = position + head_bytes
    topic_at = body_at + body_bytes + (1 if magic == _V1 else 2)
    if body_bytes < 0 or topic_at + 2 > end:
        raise RecordError(f"the record at {position} claims a body of {body_bytes} bytes in {size}")
    topic_bytes = data[topic_at - 1] if magic == _V1 else data[topic_at - 2] << 8 | data[topic_at - 1]
    properties_at = topic_at + topic_bytes + 2
    if topic_bytes > (TOPIC_BYTES_MAX_V1 if magic == _V1 else TOPIC_BYTES_MAX) or properties_at > end:
        raise RecordError(f"the record at {position} claims a topic of {topic_bytes} bytes in {size}")
    properties_bytes = data[properties_at - 2] << 8 | data[properties_at - 1]
    if properties_bytes > PROPERTIES_BYTES_MAX or properties_at + properties_bytes != end:
        raise RecordError(f"the parts of the record at {position} do not fill its {size} bytes")
    body = data[body_at : body_at + body_bytes]
    if check_crc and body_bytes and crc32(body) != body_crc:
        raise RecordError(f"the body of the record at {position} does not match its checksum")
    if decompress and sys_flag & COMPRESSED and body_bytes:
        body = decompress_body(body, sys_flag, body_bytes_max)
    # Without __init__: it would give the 18 attributes their defaults first, a third of the time.
    message = StoredMessage.__new__(StoredMessage)
    message.topic = data[topic_at : topic_at + topic_bytes].decode("utf-8", "replace")
    message.body = body
    message.lazy_properties = partial(decode_properties, data[properties_at:end]) if properties_bytes else {}
    message.broker_name = broker_name
    message.flag = flag
    message.queue_id = queue_id
    message.queue_offset = queue_offset
    message.physical_offset = physical_offset
    message.sys_flag = sys_flag
    message.born_ms = born_ms
    message.born_host = decode_host(born_host)
    message.store_ms = store_ms
    message.store_host = decode_host(store_host)
    message.reconsume_times = reconsume_times
    message.prepared_transaction_offset = prepared_transaction_offset
    message.body_crc = body_crc
    message.store_size = size
    return message
