"""The bytes of a key index file: header, slots, entries; and how a key becomes a number.

Owns        sizes and positions, the hash of a key.
Must not know   files, when entries are written.

Bytes: docs/internals/store_layout.md, "Key index".
"""

from __future__ import annotations

import struct

from rocketlake.base.clock import Millis
from rocketlake.base.java.java_compat import string_hash
from rocketlake.model.positions import PhysicalOffset

__all__ = [
    "ENTRY_SIZE",
    "HEADER_SIZE",
    "PAGE",
    "SLOT_SIZE",
    "entry_position",
    "file_size",
    "key_hash",
    "pack_entry",
    "pack_header",
    "pack_slot",
    "seconds_since",
    "slot_position",
    "unpack_entry",
    "unpack_header",
    "unpack_slot",
]

HEADER_SIZE = 40
SLOT_SIZE = 4
ENTRY_SIZE = 20
PAGE = 4096

_HEADER = struct.Struct(">qqqqii")
_SLOT = struct.Struct(">i")
_ENTRY = struct.Struct(">iqii")
_INT_MAX = 0x7FFFFFFF


def file_size(slots: int, entries: int) -> int:
    """Bytes of a file."""
    return HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * entries


def slot_position(slot: int) -> int:
    """Where slot `slot` lies in the file."""
    return HEADER_SIZE + SLOT_SIZE * slot


def entry_position(slots: int, number: int) -> int:
    """Where entry `number` (from 1) lies in the file."""
    return HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * number


def key_hash(text: str) -> int:
    """The number that stands for "topic#key": the absolute Java hash; the one int without a positive twin gives 0."""
    value = string_hash(text)
    return value if value >= 0 else -value if value > -_INT_MAX - 1 else 0


def seconds_since(begin_ms: Millis, store_ms: Millis) -> int:
    """The time field of an entry: whole seconds since the file's begin, never negative."""
    if begin_ms <= 0 or store_ms < begin_ms:
        return 0
    return min((store_ms - begin_ms) // 1000, _INT_MAX)


def pack_header(
    begin_ms: Millis,
    end_ms: Millis,
    begin_physical: PhysicalOffset,
    end_physical: PhysicalOffset,
    used_slots: int,
    count: int,
) -> bytes:
    """The header; `count` is the number of the next entry, 1 in an empty file."""
    return _HEADER.pack(begin_ms, end_ms, begin_physical, end_physical, used_slots, count)


def unpack_header(data: bytes | memoryview) -> tuple[Millis, Millis, PhysicalOffset, PhysicalOffset, int, int]:
    """(begin ms, end ms, begin physical, end physical, used slots, count)."""
    return _HEADER.unpack_from(data)


def pack_slot(number: int) -> bytes:
    """A slot: the number of its newest entry, 0 when it has none."""
    return _SLOT.pack(number)


def unpack_slot(data: bytes | memoryview, position: int) -> int:
    """The slot at a file position."""
    number: int = _SLOT.unpack_from(data, position)[0]
    return number


def pack_entry(hash_code: int, physical_offset: PhysicalOffset, seconds: int, previous: int) -> bytes:
    """An entry; `previous` is the next older entry of the same slot, 0 when there is none."""
    return _ENTRY.pack(hash_code, physical_offset, seconds, previous)


def unpack_entry(data: bytes | memoryview, position: int) -> tuple[int, PhysicalOffset, int, int]:
    """(hash, physical offset, seconds, previous) of the entry at a file position."""
    return _ENTRY.unpack_from(data, position)
