"""A slice of the commit log -> the fields of each record that consume queues and key index need. A pure function.

Owns        taking a record apart as far as dispatch needs it; where a scan ends, and why.
Must not know   files, queues, which part asks.

Stops at the first record that is not whole and sound. It raises no error, for any bytes.

Bytes: docs/internals/record.md. Twin: dispatch_scan.pxd.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from rocketlake.base.clock import Millis
from rocketlake.base.crc32 import crc32
from rocketlake.base.java.java_compat import string_hash
from rocketlake.codec import record_layout
from rocketlake.model import sys_flag as flags
from rocketlake.model.positions import PhysicalOffset, QueueOffset

__all__ = [
    "BAD_LENGTH",
    "BLANK",
    "BROKEN",
    "END",
    "DispatchEntry",
    "appended_entry",
    "scan",
]

END = 0
"""The slice ends, between two records or inside one."""
BLANK = 1
"""A blank record: the rest of the file is unused."""
BROKEN = 2
"""No sound record starts here."""
BAD_LENGTH = 3
"""A record whose parts do not add up to its total size; a reader may skip it by that size."""

# Private copies, as C numbers: a twin may not share constants (docs/internals/compiled_twins.md).
_START = PhysicalOffset(0)
_MAGIC_V1 = record_layout.MAGIC_V1 & 0xFFFFFFFF
_MAGIC_V2 = record_layout.MAGIC_V2 & 0xFFFFFFFF
_MAGIC_BLANK = record_layout.MAGIC_BLANK & 0xFFFFFFFF
_TRANSACTION_MASK = flags.TRANSACTION_MASK
_TRANSACTION_PREPARED = flags.TRANSACTION_PREPARED
_TRANSACTION_ROLLBACK = flags.TRANSACTION_ROLLBACK
_QUEUE_OFFSET_MAX = record_layout.QUEUE_OFFSET_MAX
_SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
_UNKNOWN_LEVEL_MS = 1000
_LEVEL_DIGITS_MAX = 9

_SYS_FLAG_LOW = record_layout.SYS_FLAG_AT + 3  # the byte that tells how long the hosts are
_HOST_BITS = flags.BORN_HOST_V6 | flags.STORE_HOST_V6
_LEAST_RECORD = record_layout.RECORD_BYTES_MIN
# Size, magic, body crc, queue id, queue offset, physical offset, system flag, stored, prepared offset, body length:
# one layout for each pair of host sizes, IPv4 (8 bytes) or IPv6 (20), in the order of the two bits.
_LAYOUTS = (
    struct.Struct(">iIii4xqqi8x8xq8x4xqi"),
    struct.Struct(">iIii4xqqi8x20xq8x4xqi"),
    struct.Struct(">iIii4xqqi8x8xq20x4xqi"),
    struct.Struct(">iIii4xqqi8x20xq20x4xqi"),
)
_SIZE_AND_MAGIC = struct.Struct(">iI")
_SIZE_AND_MAGIC_BYTES = 8


class DispatchEntry:
    """One record as dispatch sees it. `keys` are the words of KEYS; `unique_key` is UNIQ_KEY or ""."""

    __slots__ = (
        "keys",
        "physical_offset",
        "prepared_transaction_offset",
        "queue_id",
        "queue_offset",
        "size",
        "store_ms",
        "sys_flag",
        "tag_code",
        "topic",
        "unique_key",
    )

    def __init__(
        self,
        topic: str,
        queue_id: int,
        queue_offset: QueueOffset,
        physical_offset: PhysicalOffset,
        size: int,
        store_ms: Millis,
        sys_flag: int,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.physical_offset = physical_offset
        self.size = size
        self.store_ms = store_ms
        self.sys_flag = sys_flag
        self.prepared_transaction_offset = _START
        self.tag_code = 0
        self.keys: list[str] = []
        self.unique_key = ""

    def is_queued(self) -> bool:
        """True for a record that has a consume queue entry: no half message, no rollback."""
        kind = self.sys_flag & _TRANSACTION_MASK
        return kind != _TRANSACTION_PREPARED and kind != _TRANSACTION_ROLLBACK

    def is_indexed(self) -> bool:
        """True for a record whose keys are indexed: no rollback."""
        return self.sys_flag & _TRANSACTION_MASK != _TRANSACTION_ROLLBACK

    def index_keys(self) -> list[str]:
        """The texts its key index entries are made of: topic#unique key, then topic#word for each word of KEYS."""
        keys = [f"{self.topic}#{self.unique_key}"] if self.unique_key else []
        for word in self.keys:
            keys.append(f"{self.topic}#{word}")
        return keys

    def as_tuple(self) -> tuple[object, ...]:
        """All fields in the order of the slots; for comparing."""
        return (
            tuple(self.keys),
            self.physical_offset,
            self.prepared_transaction_offset,
            self.queue_id,
            self.queue_offset,
            self.size,
            self.store_ms,
            self.sys_flag,
            self.tag_code,
            self.topic,
            self.unique_key,
        )


def appended_entry(
    topic: str,
    queue_id: int,
    queue_offset: QueueOffset,
    physical_offset: PhysicalOffset,
    size: int,
    store_ms: Millis,
    sys_flag: int,
    prepared_transaction_offset: PhysicalOffset,
    properties: bytes,
    delays_ms: Sequence[int],
) -> DispatchEntry:
    """The entry of a record just appended, the same that `scan` would find, without reading the record again."""
    entry = DispatchEntry(topic, queue_id, queue_offset, physical_offset, size, store_ms, sys_flag)
    entry.prepared_transaction_offset = prepared_transaction_offset
    _take_properties(entry, properties, delays_ms)
    return entry


def scan(
    view: memoryview, base_offset: PhysicalOffset, check_crc: bool, delays_ms: Sequence[int]
) -> tuple[list[DispatchEntry], int, int]:
    """The records from the start of `view`, which lies at physical offset `base_offset`.

    `delays_ms[k - 1]` is the delay of level k. Returns (entries, bytes taken, END | BLANK | BROKEN | BAD_LENGTH).
    """
    data = bytes(view)  # slices of bytes are cheaper than slices of a view, by more than this copy costs
    entries: list[DispatchEntry] = []
    position = 0
    while True:
        status, entry = _read(data, position, base_offset, check_crc, delays_ms)
        if entry is None:
            return entries, position, status
        entries.append(entry)
        position += entry.size


def _read(
    data: bytes, position: int, base_offset: PhysicalOffset, check_crc: bool, delays_ms: Sequence[int]
) -> tuple[int, DispatchEntry | None]:
    left = len(data) - position
    if left < _SIZE_AND_MAGIC_BYTES:
        return END, None
    size, magic = _SIZE_AND_MAGIC.unpack_from(data, position)
    if magic == _MAGIC_BLANK:
        return BLANK, None
    if (magic != _MAGIC_V1 and magic != _MAGIC_V2) or size < _LEAST_RECORD:
        return BROKEN, None
    if left < size:
        return END, None
    return _take_apart(data, position, position + size, base_offset + position, check_crc, delays_ms)


def _take_apart(
    data: bytes, start: int, end: int, own_offset: PhysicalOffset, check_crc: bool, delays_ms: Sequence[int]
) -> tuple[int, DispatchEntry | None]:
    """The record lies from `start` to `end`; every length inside is checked before it is used."""
    hosts = (data[start + _SYS_FLAG_LOW] & _HOST_BITS) >> 4
    layout = _LAYOUTS[hosts]
    body = start + layout.size
    if body + 3 > end:
        return BAD_LENGTH, None
    fields = layout.unpack_from(data, start)
    (
        _,
        magic,
        body_crc,
        queue_id,
        queue_offset,
        physical_offset,
        sys_flag,
        store_ms,
        prepared_transaction_offset,
        body_size,
    ) = fields
    # A record that names another place is an old one, left in a file that was used before.
    if physical_offset != own_offset or not 0 <= queue_offset <= _QUEUE_OFFSET_MAX or queue_id < 0:
        return BROKEN, None
    topic = body + body_size + (1 if magic == _MAGIC_V1 else 2)
    if body_size < 0 or topic + 2 > end:
        return BAD_LENGTH, None
    topic_size = data[topic - 1] if magic == _MAGIC_V1 else data[topic - 2] << 8 | data[topic - 1]
    properties = topic + topic_size + 2
    if topic_size == 0 or topic_size > (127 if magic == _MAGIC_V1 else 32767) or properties > end:
        return BAD_LENGTH, None
    properties_size = data[properties - 2] << 8 | data[properties - 1]
    if properties_size > 32767 or properties + properties_size != end:
        return BAD_LENGTH, None
    if check_crc and body_size > 0 and crc32(data[body : body + body_size]) != body_crc:
        return BROKEN, None
    name = str(data[topic : topic + topic_size], "utf-8", "replace")
    entry = DispatchEntry(name, queue_id, queue_offset, physical_offset, end - start, store_ms, sys_flag)
    entry.prepared_transaction_offset = prepared_transaction_offset
    _take_properties(entry, data[properties:end], delays_ms)
    return END, entry


def _take_properties(entry: DispatchEntry, properties: bytes, delays_ms: Sequence[int]) -> None:
    """Tag code, keys and unique key out of a property text."""
    text = b"\x02" + properties
    level = _value(text, b"\x02DELAY\x01") if entry.topic == _SCHEDULE_TOPIC else b""
    delay_ms = _delay_ms(level, delays_ms) if level else 0
    if delay_ms:
        entry.tag_code = entry.store_ms + delay_ms
    else:
        tags = _value(text, b"\x02TAGS\x01")
        if tags:
            entry.tag_code = string_hash(str(tags, "utf-8", "replace"))
    keys = _value(text, b"\x02KEYS\x01")
    if keys:
        entry.keys = [word for word in str(keys, "utf-8", "replace").split(" ") if word]
    entry.unique_key = str(_value(text, b"\x02UNIQ_KEY\x01"), "utf-8", "replace")


def _value(text: bytes, name: bytes) -> bytes:
    """The value of a name, both with their separators. Of equal names the last counts; an empty value is none."""
    start = text.rfind(name)
    while start >= 0:
        begin = start + len(name)
        end = text.find(b"\x02", begin)
        if end < 0:
            end = len(text)
        if end > begin:
            return text[begin:end]
        start = text.rfind(name, 0, start)
    return b""


def _delay_ms(level_text: bytes, delays_ms: Sequence[int]) -> int:
    """How long a delayed message waits, 0 if the text is no level. A level above the highest becomes the highest."""
    if len(level_text) > _LEVEL_DIGITS_MAX or not level_text.isdigit():
        return 0
    level = int(level_text)
    if level == 0:
        return 0
    return delays_ms[min(level, len(delays_ms)) - 1] if delays_ms else _UNKNOWN_LEVEL_MS
