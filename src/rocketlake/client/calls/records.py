"""The records in a broker's answer: those that can be read, and what is wrong with the others.

Owns        reading an answer around a damaged record, finding the record behind a broken one.
Must not know   why the records were asked for, what becomes of a damaged record.

Rule: a damaged record costs itself only. The records before it and behind it in the answer are read. When a record's
lengths hold but its body is damaged (checksum, compression, inner batch), the body is given as stored. When its lengths
are broken, reading goes on at the next sound record of the same queue; if there is none, the answer counts as read up
to the offset behind the broken record. Queue offsets rise from the offset asked for to the broker's next offset. A
record with an offset outside of that order is damaged, too, because positions and commits are made of these offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketlake.codec.record import decode_record, decode_records
from rocketlake.codec.record_batch import unwrap_batch
from rocketlake.codec.record_layout import MAGIC_V1, MAGIC_V2, RecordError
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.sys_flag import INNER_BATCH

__all__ = ["DamagedRecord", "Found", "read_records"]

OFFSET_MAX = 2**63 - 1
_MAGICS = tuple((magic & 0xFFFFFFFF).to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))


@dataclass(frozen=True, slots=True)
class DamagedRecord:
    """A record that cannot be read: where, why, and what is left of it."""

    queue: MessageQueue | None
    offset: int
    """Its queue offset. If its lengths are broken: the smallest offset the record can have."""
    reason: str
    message: StoredMessage | None = None
    """The message with its body as stored (compressed or wrong); None when the record's lengths are broken."""
    behind: int = 0
    """So many sound messages of the answer come before it."""


@dataclass(slots=True)
class Found:
    """The sound and the damaged records of an answer, in the order of the queue."""

    messages: list[StoredMessage]
    damaged: list[DamagedRecord]
    ends_at: int | None = None
    """The offset to go on at when the end of the answer could not be read; None: where the broker says."""

    def in_order(self) -> list[StoredMessage | None]:
        """All records as they came; None for one whose lengths are broken."""
        records: list[StoredMessage | None] = []
        begin = 0
        for record in self.damaged:
            records += [*self.messages[begin : record.behind], record.message]
            begin = record.behind
        return [*records, *self.messages[begin:]]


def read_records(
    body: bytes, queue: MessageQueue | None, offsets: tuple[int, int] | None = None, *, delta: int = 0
) -> Found:
    """All messages that can be read. `offsets`: the range that was asked for, from the first to behind the last.

    `delta` is added to each queue offset.
    """
    records = decode_records(body, broker_name=queue.broker_name if queue else "")
    if delta:
        for record in records:
            record.queue_offset += delta
    found = None
    if sum([record.store_size for record in records]) == len(body):
        if any([record.sys_flag & INNER_BATCH for record in records]):
            found = _unwrapped(records)
        elif offsets is None or _in_order([record.queue_offset for record in records], offsets):
            found = Found(records, [])
    return found or _Around(body, queue, offsets, delta).read()


def _in_order(found: list[int], offsets: tuple[int, int]) -> bool:
    return not found or (found[0] >= offsets[0] and found[-1] < offsets[1] and sorted(set(found)) == found)


def _unwrapped(records: list[StoredMessage]) -> Found | None:
    try:
        return Found([message for record in records for message in unwrap_batch(record)], [])
    except RecordError:
        return None


class _Around:
    """Reads an answer that holds a damaged record, one record after the other."""

    def __init__(self, body: bytes, queue: MessageQueue | None, offsets: tuple[int, int] | None, delta: int) -> None:
        self._body = body
        self._queue = queue
        self._broker_name = queue.broker_name if queue else ""
        self._delta = delta
        self._next_offset, self._end_offset = offsets or (0, OFFSET_MAX)
        """The smallest queue offset that the next record can have, and the end of the range asked for."""
        self._is_checked = offsets is not None
        self._found = Found([], [])

    def read(self) -> Found:
        position = 0
        while position < len(self._body):
            size = self._read_one(position)
            position = position + size if size else self._pass_over(position)
        return self._found

    def _read_one(self, position: int) -> int:
        """Size of the record at a position; 0 when its lengths are broken."""
        try:
            message = decode_record(self._body, position, check_crc=False, decompress=False)
        except RecordError:
            return 0
        message.broker_name = self._broker_name
        message.queue_offset += self._delta
        size = message.store_size
        if fault := self._misplaced(message):
            self._found.damaged.append(self._damaged(self._next_offset, fault, message))
            self._next_offset += 1
            return size
        try:
            # Decoded again, now with the body: the size is known to be right.
            whole = decode_record(self._body, position)
            whole.broker_name, whole.queue_offset = message.broker_name, message.queue_offset
            inner = unwrap_batch(whole)
        except RecordError as error:
            self._found.damaged.append(self._damaged(message.queue_offset, str(error), message))
            inner = []
        self._found.messages += inner
        self._next_offset = (inner[-1] if inner else message).queue_offset + 1
        return size

    def _damaged(self, offset: int, reason: str, message: StoredMessage | None = None) -> DamagedRecord:
        return DamagedRecord(self._queue, offset, reason, message, len(self._found.messages))

    def _misplaced(self, message: StoredMessage) -> str:
        """Why a record cannot have the queue offset that it says it has; "" when it can."""
        if not self._is_checked or message.sys_flag & INNER_BATCH:
            return ""
        if self._next_offset <= message.queue_offset < self._end_offset:
            return ""
        return f"it says it has queue offset {message.queue_offset}, not {self._next_offset} to {self._end_offset - 1}"

    def _pass_over(self, position: int) -> int:
        """Note that the lengths of a record are broken; the position of the next sound one, or the end."""
        try:
            decode_record(self._body, position, check_crc=False, decompress=False)
            reason = ""
        except RecordError as error:
            reason = str(error)
        self._found.damaged.append(self._damaged(self._next_offset, reason))
        self._next_offset += 1
        found = self._find_sound(position + 1)
        if found < 0:
            self._found.ends_at = self._next_offset
            return len(self._body)
        return found

    def _find_sound(self, begin: int) -> int:
        """Position of the next record of this queue with a right checksum; -1 without one."""
        at = begin + 4
        while (at := self._next_magic(at)) >= 0:
            try:
                message = decode_record(self._body, at - 4, decompress=False)
            except RecordError:
                pass
            else:
                queue = self._queue
                message.queue_offset += self._delta
                if (queue is None or message.topic == queue.topic) and not self._misplaced(message):
                    return at - 4
            at += 1
        return -1

    def _next_magic(self, begin: int) -> int:
        return min((at for magic in _MAGICS if (at := self._body.find(magic, begin)) >= 0), default=-1)
