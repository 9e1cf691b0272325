"""Where the records of a stretch of bytes start, and where the next record starts after bytes that are no record.

Owns        stepping from record to record, finding one without knowing where it starts.
Must not know   files, the content of records. A body's checksum is read only by a search for a record.

No function here raises for any bytes. The kernel of record_columns.pyx does the same 50 times faster and is used where
it is compiled.
"""

from __future__ import annotations

import importlib
import struct
from array import array
from typing import Any

from rocketlake.base.crc32 import crc32
from rocketlake.base.pure_import import has_kernel
from rocketlake.codec import record_layout as layout

__all__ = [
    "BAD_LENGTH",
    "BLANK",
    "BROKEN",
    "END",
    "find_record",
    "find_record_slowly",
    "sound_starts",
    "sound_starts_slowly",
    "walk",
    "walk_slowly",
]

END = 0
"""The bytes end, between two records or inside one."""
BLANK = 1
"""A blank record: the rest of its file is unused."""
BROKEN = 2
"""No record of this place starts here."""
BAD_LENGTH = 3
"""Its parts do not add up to its size."""

Buffer = bytes | bytearray | memoryview

_HEAD = struct.Struct(">ii")
_PLACE = struct.Struct(">i4xqqi")  # from byte 12: queue id, queue offset, physical offset, system flag
_INT = struct.Struct(">i")
_QUEUE_OFFSET_MAX = layout.QUEUE_OFFSET_MAX


def walk_slowly(data: Buffer, base: int) -> tuple[bytes, int, int]:
    """(positions of the records as native int64 each, position behind the last, END | BLANK | BROKEN | BAD_LENGTH).

    `base` is the physical offset of `data`; with -1 records of any place count, and only their sizes are looked at.
    """
    starts = array("q")
    position = 0
    while True:
        size, status = _size_at(data, position, base)
        if not size:
            return starts.tobytes(), position, status
        starts.append(position)
        position += size


def sound_starts_slowly(data: Buffer, starts: Any, base: int) -> bytes:
    """Those of `starts` (native int64 each) where a record of its place starts; bodies are not looked at."""
    kept = array("q")
    for start in memoryview(starts).cast("B").cast("q"):
        if 0 <= start < len(data) and _size_at(data, start, base)[0]:
            kept.append(start)
    return kept.tobytes()


def find_record_slowly(data: Buffer, begin: int, base: int) -> int:
    """Position of the first sound record of its place, checksum included, from `begin` on; -1 if there is none."""
    raw = bytes(data)
    for position in range(begin, len(raw) - layout.RECORD_BYTES_MIN + 1):
        if raw[position + 4] == 0xDA:
            size, _status = _size_at(raw, position, base)
            if size and _is_sound(raw, position):
                return position
    return -1


def _size_at(data: Buffer, position: int, base: int) -> tuple[int, int]:
    """Size of the record at a position; 0 and why there is none."""
    if len(data) - position < _HEAD.size:
        return 0, END
    size, magic = _HEAD.unpack_from(data, position)
    if magic == layout.MAGIC_BLANK and base >= 0:
        return 0, BLANK
    if magic not in (layout.MAGIC_V1, layout.MAGIC_V2) or size < layout.RECORD_BYTES_MIN:
        return 0, BROKEN
    if position + size > len(data):
        return 0, END
    if base >= 0:
        queue_id, queue_offset, physical_offset, sys_flag = _PLACE.unpack_from(data, position + layout.QUEUE_ID_AT)
        if physical_offset != base + position or queue_id < 0 or not 0 <= queue_offset <= _QUEUE_OFFSET_MAX:
            return 0, BROKEN
        if not _adds_up(data, position, size, sys_flag, magic == layout.MAGIC_V2):
            return 0, BAD_LENGTH
    return size, END


def _body(data: Buffer, position: int, sys_flag: int) -> tuple[int, int]:
    begin = position + 88 + (12 if sys_flag & 0x10 else 0) + (12 if sys_flag & 0x20 else 0)
    return begin, _INT.unpack_from(data, begin - 4)[0] if begin + 3 <= len(data) else -1


def _adds_up(data: Buffer, position: int, size: int, sys_flag: int, wide: bool) -> bool:
    end = position + size
    body, body_size = _body(data, position, sys_flag)
    topic = body + body_size + 1 + wide
    if body + 3 > end or body_size < 0 or topic + 2 > end:
        return False
    topic_size = data[topic - 2] << 8 | data[topic - 1] if wide else data[topic - 1]
    properties = topic + topic_size + 2
    if not 0 < topic_size <= (layout.TOPIC_BYTES_MAX if wide else layout.TOPIC_BYTES_MAX_V1) or properties > end:
        return False
    properties_size = data[properties - 2] << 8 | data[properties - 1]
    return properties_size <= layout.PROPERTIES_BYTES_MAX and properties + properties_size == end


def _is_sound(data: bytes, position: int) -> bool:
    body, body_size = _body(data, position, _INT.unpack_from(data, position + layout.SYS_FLAG_AT)[0])
    wanted = _INT.unpack_from(data, position + layout.CRC_AT)[0]
    return body_size == 0 or crc32(data[body : body + body_size]) == wanted


_kernel = (
    importlib.import_module("rocketlake.codec.record_columns")
    if has_kernel("rocketlake.codec.record_columns")
    else None
)
walk = _kernel.walk if _kernel else walk_slowly
sound_starts = _kernel.sound_starts if _kernel else sound_starts_slowly
find_record = _kernel.find_record if _kernel else find_record_slowly
