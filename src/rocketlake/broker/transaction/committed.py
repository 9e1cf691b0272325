"""Committed messages in a stretch of the log.

Owns        the search: records with the commit bits.
Must not know   the use of what it finds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from rocketlake.base.logs import get_logger
from rocketlake.codec.record import decode_record
from rocketlake.codec.record_layout import BLANK_BYTES, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, SYS_FLAG_AT, RecordError
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import PhysicalOffset
from rocketlake.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK

__all__ = ["committed_in", "committed_records"]

_log = get_logger(__name__)

_HEAD = struct.Struct(f">ii{SYS_FLAG_AT - BLANK_BYTES}xi")  # size, magic, system flag


def committed_records(views: Iterable[tuple[PhysicalOffset, memoryview]]) -> Iterator[StoredMessage]:
    """The committed messages in parts of the log: (physical offset of the first record, bytes)."""
    for start, view in views:
        yield from committed_in(view, start)[0]


def committed_in(view: memoryview, start: PhysicalOffset) -> tuple[list[StoredMessage], int, bool]:
    """The committed messages in a part of the log that begins with a record.

    Also how many bytes were walked over, and True if no record follows them in this file, False if the next one is not
    wholly in this part.
    """
    found: list[StoredMessage] = []
    position = 0
    while position + RECORD_BYTES_MIN <= len(view):
        size, magic, flags = _HEAD.unpack_from(view, position)
        if magic not in (MAGIC_V1, MAGIC_V2) or size < RECORD_BYTES_MIN:
            return found, position, True
        if position + size > len(view):
            break
        if flags & TRANSACTION_MASK == TRANSACTION_COMMIT:
            found += _decoded(view[position : position + size], start + position)
        position += size
    return found, position, False


def _decoded(record: memoryview, offset: PhysicalOffset) -> Iterator[StoredMessage]:
    try:
        yield decode_record(record, check_crc=False, decompress=False)
    except RecordError as error:
        _log.error(
            "the committed message at %d is damaged; its producer may be asked about it again: %s", offset, error
        )
