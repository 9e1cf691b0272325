"""A slice of the commit log -> what consume queues and key index need to know of each record. A pure function.

Owns        taking a record apart as far as dispatch needs it; where a scan ends, and why.
Must not know   files, queues, who asks.

Stops at the first record that is not whole and sound. Whatever the bytes are, it raises nothing.

Bytes: docs/internals/record.md. Twin: dispatch_scan.pxd.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from rocketlake.base.java_compat import string_hash

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

# Private copies: a twin may not share constants (docs/internals/compiled_twins.md).
_MAGIC_V1 = 0xDAA320A7
_MAGIC_V2 = 0xDAA320AB
_MAGIC_BLANK = 0xCBD43194
_TRANSACTION_MASK = 12
_TRANSACTION_PREPARED = 4
_TRANSACTION_COMMIT = 8
_TRANSACTION_ROLLBACK = 12
_BORN_HOST_V6 = 16
_STORE_HOST_V6 = 32
_QUEUE_OFFSET_MAX = 0x7FFFFFFFFFFFFFFF // 20  # its entry's byte position must be a long
_SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
_UNKNOWN_LEVEL_MS = 1000
_LEVEL_DIGITS_MAX = 9

_HEAD = struct.Struct(">iIiiiqqi")  # size, magic, body crc, queue id, flag, queue offset, physical offset, sys flag
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_UINT = struct.Struct(">I")
_SHORT = struct.Struct(">h")
_BORN_HOST = 48
_HOSTS_V4 = 8
_V6_EXTRA = 12
_LEAST_RECORD = 91


class DispatchEntry:
    """One record as dispatch sees it. `keys` are the words of KEYS; `unique_key` is UNIQ_KEY or ""."""

    __slots__ = (
        "keys",
        "physical_offset",
        "prepared_offset",
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
        queue_offset: int,
        physical_offset: int,
        size: int,
        store_ms: int,
        sys_flag: int,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.physical_offset = physical_offset
        self.size = size
        self.store_ms = store_ms
        self.sys_flag = sys_flag
        self.prepared_offset = 0
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
            self.prepared_offset,
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
    queue_offset: int,
    physical_offset: int,
    size: int,
    store_ms: int,
    sys_flag: int,
    prepared_offset: int,
    properties: bytes,
    delays_ms: Sequence[int],
) -> DispatchEntry:
    """The entry of a record just appended, the same that `scan` would find, without reading the record again."""
    entry = DispatchEntry(topic, queue_id, queue_offset, physical_offset, size, store_ms, sys_flag)
    entry.prepared_offset = prepared_offset
    _take_properties(entry, properties, delays_ms)
    return entry


def scan(
    view: memoryview, base_offset: int, check_crc: bool, delays_ms: Sequence[int]
) -> tuple[list[DispatchEntry], int, int]:
    """The records from the start of `view`, which lies at physical offset `base_offset`.

    `delays_ms[k - 1]` is the delay of level k. Returns (entries, bytes taken, END | BLANK | BROKEN | BAD_LENGTH).
    """
    entries: list[DispatchEntry] = []
    position = 0
    while True:
        status, entry = _read(view, position, base_offset, check_crc, delays_ms)
        if entry is None:
            return entries, position, status
        entries.append(entry)
        position += entry.size


def _read(
    view: memoryview, position: int, base_offset: int, check_crc: bool, delays_ms: Sequence[int]
) -> tuple[int, DispatchEntry | None]:
    left = len(view) - position
    if left < 8:
        return END, None
    size = _INT.unpack_from(view, position)[0]
    magic = _UINT.unpack_from(view, position + 4)[0]
    if magic == _MAGIC_BLANK:
        return BLANK, None
    if (magic != _MAGIC_V1 and magic != _MAGIC_V2) or size < _LEAST_RECORD:
        return BROKEN, None
    if left < size:
        return END, None
    return _take_apart(view[position : position + size], base_offset + position, magic, check_crc, delays_ms)


def _take_apart(
    record: memoryview, own_offset: int, magic: int, check_crc: bool, delays_ms: Sequence[int]
) -> tuple[int, DispatchEntry | None]:
    """`record` is as long as its total size says; every length inside is checked before it is used."""
    size = len(record)
    _, _, body_crc, queue_id, _, queue_offset, physical_offset, sys_flag = _HEAD.unpack_from(record, 0)
    # A record that names another place is an old one, left in a file that was used before.
    if physical_offset != own_offset or not 0 <= queue_offset <= _QUEUE_OFFSET_MAX or queue_id < 0:
        return BROKEN, None
    store_time = _BORN_HOST + (_HOSTS_V4 + _V6_EXTRA if sys_flag & _BORN_HOST_V6 else _HOSTS_V4)
    prepared = store_time + 12 + (_HOSTS_V4 + _V6_EXTRA if sys_flag & _STORE_HOST_V6 else _HOSTS_V4)
    body = prepared + 12
    topic_length = 2 if magic == _MAGIC_V2 else 1
    if body + topic_length + 2 > size:
        return BAD_LENGTH, None
    body_size = _INT.unpack_from(record, body - 4)[0]
    topic = body + body_size + topic_length
    if body_size < 0 or topic + 2 > size:
        return BAD_LENGTH, None
    topic_size = _SHORT.unpack_from(record, topic - 2)[0] if topic_length == 2 else record[topic - 1]
    properties = topic + topic_size + 2
    if topic_size <= 0 or properties > size or (topic_length == 1 and topic_size > 127):
        return BAD_LENGTH, None
    properties_size = _SHORT.unpack_from(record, properties - 2)[0]
    if properties_size < 0 or properties + properties_size != size:
        return BAD_LENGTH, None
    if check_crc and body_size > 0 and zlib.crc32(record[body : body + body_size]) & 0x7FFFFFFF != body_crc:
        return BROKEN, None
    entry = DispatchEntry(
        str(record[topic : topic + topic_size], "utf-8", "replace"),
        queue_id,
        queue_offset,
        physical_offset,
        size,
        _LONG.unpack_from(record, store_time)[0],
        sys_flag,
    )
    entry.prepared_offset = _LONG.unpack_from(record, prepared)[0]
    _take_properties(entry, bytes(record[properties:]), delays_ms)
    return END, entry


def _take_properties(entry: DispatchEntry, properties: bytes, delays_ms: Sequence[int]) -> None:
    """Tag code, keys and unique key out of a property text; of equal names the last counts, as in a Java map."""
    tags = b""
    keys = b""
    unique_key = b""
    level = b""
    for piece in properties.split(b"\x02"):
        name, separator, value = piece.partition(b"\x01")
        if not separator or not value:
            continue
        if name == b"TAGS":
            tags = value
        elif name == b"KEYS":
            keys = value
        elif name == b"UNIQ_KEY":
            unique_key = value
        elif name == b"DELAY":
            level = value
    delay_ms = _delay_ms(level, delays_ms) if level and entry.topic == _SCHEDULE_TOPIC else 0
    if delay_ms:
        entry.tag_code = entry.store_ms + delay_ms
    elif tags:
        entry.tag_code = string_hash(str(tags, "utf-8", "replace"))
    if keys:
        entry.keys = [word for word in str(keys, "utf-8", "replace").split(" ") if word]
    entry.unique_key = str(unique_key, "utf-8", "replace")


def _delay_ms(level_text: bytes, delays_ms: Sequence[int]) -> int:
    """How long a delayed message waits, 0 if the text is no level. A level above the highest becomes the highest."""
    if len(level_text) > _LEVEL_DIGITS_MAX or not level_text.isdigit():
        return 0
    level = int(level_text)
    if level == 0:
        return 0
    return delays_ms[min(level, len(delays_ms)) - 1] if delays_ms else _UNKNOWN_LEVEL_MS
