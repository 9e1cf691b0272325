"""Committed messages: in a stretch of the log, and the one of a half message.

Owns        the search: records with the commit bits.
Must not know   the use of what it finds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from rocketlake.base.clock import Millis
from rocketlake.base.logs import get_logger
from rocketlake.broker.delay.parking import real_target
from rocketlake.codec.record import decode_record, decode_records
from rocketlake.codec.record_layout import BLANK_BYTES, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, SYS_FLAG_AT, RecordError
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import PhysicalOffset
from rocketlake.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, transaction_type
from rocketlake.store.message_store import MessageStore

__all__ = ["committed_in", "committed_records", "was_committed"]

_log = get_logger(__name__)

_CLOCKS_DIFFER_MS = 600_000
_ANY_TIME = Millis(1 << 62)
_HITS_MAX = 32
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


def was_committed(store: MessageStore, half: StoredMessage) -> bool:
    """True if the topic of a half message holds its committed message, as far back as the key index goes.

    Such a half message is a second one of its transaction. Apache's broker puts half messages back that were ended
    within the last three seconds, and a producer repeats a half message whose answer was lost with the master. Raises
    NotInMemory.
    """
    meant = real_target(half.properties)
    if meant is None or not half.unique_key:
        return False
    begin = Millis(max(0, min(half.born_ms, half.store_ms) - _CLOCKS_DIFFER_MS))
    found = store.query(meant[0], half.unique_key, _HITS_MAX, begin, _ANY_TIME, unique=True)
    return any(
        transaction_type(message.sys_flag) == TRANSACTION_COMMIT
        and (message.born_ms, message.body_crc) == (half.born_ms, half.body_crc)
        for message in decode_records(b"".join(found.slices), check_crc=False, decompress=False)
    )


def _decoded(record: memoryview, offset: PhysicalOffset) -> Iterator[StoredMessage]:
    try:
        yield decode_record(record, check_crc=False, decompress=False)
    except RecordError as error:
        _log.error(
            "the committed message at %d is damaged; its producer may be asked about it again: %s", offset, error
        )
