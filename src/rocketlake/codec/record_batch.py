"""Many messages in one body: the batch of a client, and the content of one record of a batch topic.

Owns        writing and reading of batch bodies.
Must not know   which messages may form a batch (client), how a batch gets its offsets (store).

Bytes: docs/internals/record.md ("Batches"): entries back to back, each
size i4, magic i4, crc i4 (both ignored), flag i4, body length i4, body, properties length i2, properties.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from rocketlake.codec.property_text import decode as decode_properties
from rocketlake.codec.property_text import encode as encode_properties
from rocketlake.codec.record_layout import BATCH_ENTRY_BYTES_MIN, PROPERTIES_BYTES_MAX, RecordError
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.property_names import UNIQUE_KEY
from rocketlake.model.sys_flag import INNER_BATCH, NEED_UNWRAP

__all__ = [
    "MESSAGES_MAX",
    "BatchEntry",
    "batch_body",
    "batch_entries",
    "decode_batch",
    "encode_batch",
    "entry_starts",
    "entry_text",
    "has_more",
    "unwrap_batch",
]

Buffer = bytes | bytearray | memoryview
BatchEntry = tuple[int, bytes, bytes]
"""(flag, body, properties block) of one message."""

MESSAGES_MAX = 1 << 20

_HEAD = struct.Struct(">iiiii")
_SIZE = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_KEY_NAME = f"{UNIQUE_KEY}\x01".encode()


def encode_batch(messages: Iterable[Message]) -> bytes:
    """The batch body of these messages. RecordError if the properties of one are longer than 32,767 bytes."""
    return b"".join([part for message in messages for part in _entry_parts(message, entry_text(message))])


def entry_text(message: Message) -> bytes:
    """The properties of a message as an entry of a batch holds them. RecordError as for `encode_batch`."""
    text = encode_properties(message.properties)
    if len(text) > PROPERTIES_BYTES_MAX:
        raise _too_long(text)
    return text


def batch_body(messages: Sequence[Message], texts: Sequence[bytes], keys: Sequence[str | None]) -> bytes:
    """The batch body of messages whose property texts are known (`entry_text`); RecordError as for `encode_batch`.

    A key goes behind the text as its property UNIQ_KEY; None: the text has all. The kernel `batch_body` does the same.
    """
    parts: list[bytes] = []
    for message, text, key in zip(messages, texts, keys, strict=True):
        whole = text if key is None else b"%b%b%b\x02" % (text, _KEY_NAME, key.encode())
        if len(whole) > PROPERTIES_BYTES_MAX:
            raise _too_long(whole)
        parts += _entry_parts(message, whole)
    return b"".join(parts)


def _entry_parts(message: Message, text: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """One entry, in parts: its body is not copied here."""
    body, text_bytes = message.body, len(text)
    body_bytes = len(body)
    size = BATCH_ENTRY_BYTES_MIN + body_bytes + text_bytes
    return _HEAD.pack(size, 0, 0, message.flag, body_bytes), body, _SHORT.pack(text_bytes), text


def _too_long(text: bytes) -> RecordError:
    return RecordError(f"properties of {len(text)} bytes do not fit a batch entry")


def decode_batch(body: Buffer, messages_max: int = MESSAGES_MAX) -> list[BatchEntry]:
    """The entries of a batch body. RecordError if it is not made of whole entries, or of too many."""
    return list(batch_entries(body, messages_max))


def batch_entries(body: Buffer, messages_max: int = MESSAGES_MAX) -> Iterator[BatchEntry]:
    """The same, one by one."""
    position = count = 0
    end = len(body)
    while position < end:
        if end - position < BATCH_ENTRY_BYTES_MIN:
            raise RecordError(f"{end - position} bytes at {position} are too few for a batch entry")
        size, _, _, flag, body_bytes = _HEAD.unpack_from(body, position)
        body_at = position + 20
        properties_at = body_at + body_bytes + 2
        if body_bytes < 0 or size > end - position or properties_at > position + size:
            raise RecordError(f"batch entry at {position} claims {size} bytes with a body of {body_bytes}")
        properties_bytes = _SHORT.unpack_from(body, properties_at - 2)[0]
        if properties_bytes < 0 or properties_at + properties_bytes != position + size:
            raise RecordError(f"the parts of the batch entry at {position} do not fill its {size} bytes")
        if count >= messages_max:
            raise RecordError(f"a batch of more than {messages_max} messages")
        count += 1
        position += size
        yield (
            flag,
            bytes(body[body_at : body_at + body_bytes]),
            bytes(body[properties_at : properties_at + properties_bytes]),
        )


def has_more(body: Buffer, messages: int) -> bool:
    """True if the body is a batch of more than so many messages. Only the sizes of entries are read; False for a broken
    batch."""
    position = 0
    end = len(body)
    for _number in range(messages):
        if end - position < BATCH_ENTRY_BYTES_MIN:
            return False
        size = _SIZE.unpack_from(body, position)[0]
        if size < BATCH_ENTRY_BYTES_MIN:
            return False
        position += size
    return position < end


def entry_starts(body: Buffer) -> list[int]:
    """Where the entries of a batch body begin. RecordError if their sizes do not fill it."""
    starts: list[int] = []
    position = 0
    end = len(body)
    while position < end:
        size = _SIZE.unpack_from(body, position)[0] if end - position >= BATCH_ENTRY_BYTES_MIN else 0
        if not BATCH_ENTRY_BYTES_MIN <= size <= end - position:
            raise RecordError(f"{end - position} bytes at {position} are no batch entry")
        starts.append(position)
        position += size
    return starts


def unwrap_batch(outer: StoredMessage) -> list[StoredMessage]:
    """The messages inside of one record of a batch topic; [outer] if it is an ordinary message.

    Offsets count up from the record's queue offset; hosts, times and place are the record's.
    """
    if not (outer.sys_flag & INNER_BATCH and outer.sys_flag & NEED_UNWRAP):
        return [outer]
    messages: list[StoredMessage] = []
    for number, (flag, body, properties) in enumerate(decode_batch(outer.body)):
        inner = StoredMessage(
            outer.topic,
            body,
            properties=decode_properties(properties),
            flag=flag,
            broker_name=outer.broker_name,
            queue_id=outer.queue_id,
            queue_offset=outer.queue_offset + number,
            physical_offset=outer.physical_offset,
            sys_flag=outer.sys_flag,
            born_ms=outer.born_ms,
            born_host=outer.born_host,
            store_ms=outer.store_ms,
            store_host=outer.store_host,
            reconsume_times=outer.reconsume_times,
            prepared_transaction_offset=outer.prepared_transaction_offset,
            body_crc=outer.body_crc,
            store_size=outer.store_size,
        )
        messages.append(inner)
    return messages
