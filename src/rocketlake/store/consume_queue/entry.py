"""The 20-byte entry of a consume queue.

Owns        its bytes: physical offset, record size, tag code; which entries count as written.
Must not know   files, queues.

Bytes: docs/internals/store_layout.md, "Consume queue". Twin: entry.pxd.
"""

from __future__ import annotations

import struct
import sys
from array import array

from rocketlake.model.positions import PhysicalOffset

__all__ = ["ENTRY_SIZE", "FILLER", "FILLER_SIZE", "is_filler", "pack_entry", "unpack_entries", "valid_count"]

ENTRY_SIZE = 20
FILLER_SIZE = 0x7FFFFFFF
"""Record size in an entry that stands for nothing: it fills a queue that starts in the middle of a file."""

_ENTRY = struct.Struct(">qiq")
_WORDS = 5
_SWAPS = sys.byteorder == "little"  # entries are big-endian
FILLER = _ENTRY.pack(0, FILLER_SIZE, 0)


def pack_entry(physical_offset: PhysicalOffset, size: int, tag_code: int) -> bytes:
    """The bytes of one entry; `tag_code` is a signed 64-bit number (a time of delivery for delayed messages)."""
    return _ENTRY.pack(physical_offset, size, tag_code)


def unpack_entries(data: bytes | bytearray | memoryview) -> list[tuple[PhysicalOffset, int, int]]:
    """(physical offset, size, tag code) of each entry; `data` must be whole entries."""
    return list(_ENTRY.iter_unpack(data))


def is_filler(physical_offset: PhysicalOffset, size: int) -> bool:
    """True for an entry that stands for no message."""
    return size == FILLER_SIZE and physical_offset == 0


def valid_count(data: bytes | memoryview) -> int:
    """How many entries from the start were written: the first with a negative offset or no size ends them.

    `data` must be whole entries.
    """
    words = array("i")  # five to an entry
    words.frombytes(data)
    if _SWAPS:
        words.byteswap()
    numbers = words
    count = 0
    for at in range(0, len(words), _WORDS):
        if numbers[at] < 0 or numbers[at + 2] <= 0:
            break
        count += 1
    return count
