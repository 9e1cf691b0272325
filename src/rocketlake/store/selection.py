"""Which records of a stretch of a consume queue one read takes.

Owns        the walk over queue entries: limits of the answer, tag tests, a last look at each record, neighbours as one.

Invariant: each record taken names this size, this place, this topic and this queue as its own, and is none of a topic
of this name that was deleted.
One that says another queue offset is treated as any other, and counted: fetch.py has a better one looked for.
Must not know   queues, files: it is shown a window of the log, and says when a record lies outside of it.

A compiled twin; see docs/internals/compiled_twins.md. Rules: docs/internals/store_layout.md, "Get".
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.codec import record_layout as layout
from rocketlake.model import sys_flag
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.consume_queue import entry
from rocketlake.store.residency import BLOCK_BITS

__all__ = ["Selection"]

_START = PhysicalOffset(0)
_BLOCK_BITS = BLOCK_BITS
_ENTRY_BYTES = entry.ENTRY_SIZE
_FILLER_SIZE = entry.FILLER_SIZE
_LEAST_RECORD = layout.RECORD_BYTES_MIN
_BODY_AT = layout.BODY_AT  # both hosts with IPv4
_BORN_HOST_V6 = sys_flag.BORN_HOST_V6
_STORE_HOST_V6 = sys_flag.STORE_HOST_V6
_V6_MORE = layout.HOST_V6_MORE
_MAGIC_HIGH = layout.MAGIC_V1 >> 8 & 0xFFFFFF  # of both record magics; the last byte differs
_MAGIC_V1_LOW = layout.MAGIC_V1 & 0xFF
_MAGIC_V2_LOW = layout.MAGIC_V2 & 0xFF


class Selection:
    """The records taken so far, as few pieces as possible. Physical offsets rise from entry to entry."""

    __slots__ = (
        "_begin",
        "_end",
        "_old_bytes",
        "_old_count",
        "_origin",
        "_piece_end",
        "_piece_start",
        "_queue_id",
        "_recent_bytes",
        "_recent_count",
        "_recent_from",
        "_sure",
        "_topic",
        "_view",
        "bytes",
        "count",
        "gone_below",
        "is_full",
        "is_outside",
        "misnumbered",
        "odd",
        "pieces",
        "wanted_offset",
        "wanted_size",
    )

    def __init__(
        self,
        recent_from: PhysicalOffset,
        count_max: int,
        bytes_max: int,
        recent_count: int,
        recent_bytes: int,
        old_count: int,
        old_bytes: int,
        topic: bytes,
        queue_id: int,
        begin: PhysicalOffset,
    ) -> None:
        """How many messages and bytes one answer may hold, in all and of records before and from `recent_from` on.

        `topic`, `queue_id`: those that a record must name as its own. Before `begin` lie those of a deleted topic.
        """
        self._begin = begin
        self._topic = topic
        self._queue_id = queue_id
        self._recent_from = recent_from
        self._recent_count = min(count_max, recent_count)
        self._recent_bytes = min(bytes_max, recent_bytes)
        self._old_count = min(count_max, old_count)
        self._old_bytes = min(bytes_max, old_bytes)
        self._view = memoryview(b"")
        self._origin = _START
        self._end = _START
        self._sure: bytearray | None = None
        self._piece_start = 0
        self._piece_end = 0
        self.pieces: list[memoryview] = []
        """The records taken, in order; neighbours in the log are one piece. Complete after `end_piece`."""
        self.count = 0
        self.bytes = 0
        self.is_full = False
        """The next record would exceed a limit, or `match_record` has ended the read."""
        self.is_outside = False
        """The next record lies outside of the window, or in no sure block: at `wanted_offset`, `wanted_size` bytes."""
        self.wanted_offset = _START
        self.wanted_size = 0
        self.odd = 0
        """Entries passed by that lead to no record of this queue."""
        self.misnumbered = 0
        """Records of this queue, taken or not wanted, that say that they have another queue offset."""
        self.gone_below = _START
        """Entries of records below this physical offset are passed by."""

    def show(self, view: memoryview, origin: PhysicalOffset, end: PhysicalOffset, sure: bytearray | None) -> None:
        """The window: `view` starts at physical offset `origin` and may be read up to `end`.

        `sure` has a byte for each block of it, 0 if a look into the block might have to wait for the disk.
        """
        if view is not self._view:
            self.end_piece()
            self._view = view
            self._origin = origin
        self._end = end
        self._sure = sure

    def take(
        self,
        entries: bytes | bytearray | memoryview,
        first: QueueOffset,
        at: int,
        match: Callable[[int], bool] | None,
        match_record: Callable[[memoryview], bool | None] | None,
    ) -> int:
        """Walk over `entries` from number `at` on; the number of the entry at which it stopped (`is_...` say why).

        `first`: the queue offset of entry number 0.
        """
        return self._walk(entries, first, at, self._view, match, match_record)

    def _walk(
        self,
        entries: bytes | bytearray | memoryview,
        first: QueueOffset,
        number: int,
        data: memoryview,
        match: Callable[[int], bool] | None,
        match_record: Callable[[memoryview], bool | None] | None,
    ) -> int:
        """`data` is the window once more, where the compiled form reads single bytes."""
        count = len(entries) // _ENTRY_BYTES
        self.is_outside = False
        while number < count:
            at = number * _ENTRY_BYTES
            offset: PhysicalOffset = _int64(entries, at)  # type: ignore[assignment]  # here it comes in
            size = _int32(entries, at + 8)
            if self.count > 0 and self._is_enough(offset, size):
                self.is_full = True
                break
            number += 1
            if 0 <= offset < self.gone_below or (size == _FILLER_SIZE and offset == 0):
                continue
            if offset < self._begin or size < _LEAST_RECORD:
                self.odd += 1
                continue
            if match is not None and not match(_int64(entries, at + 12)):
                continue
            if not self._is_inside(offset, size):
                self.is_outside = True
                self.wanted_offset = offset
                self.wanted_size = size
                return number - 1
            position = offset - self._origin
            if not self._is_own(data, position, size, offset):
                self.odd += 1
                continue  # damaged on disk: one bad record must not spoil the answer
            is_misnumbered = _int64(data, position + 20) != first + number - 1
            if match_record is not None:
                matches = match_record(self._view[position : position + size])
                if matches is None:
                    self.is_full = True
                    return number - 1
                if not matches:
                    self.misnumbered += is_misnumbered
                    continue
            self.misnumbered += is_misnumbered
            if position != self._piece_end:
                self.end_piece()
                self._piece_start = position
            self._piece_end = position + size
            self.bytes += size
            self.count += 1
        return number

    def _is_inside(self, offset: PhysicalOffset, size: int) -> bool:
        """True if a record lies in the window, in blocks that can be read without waiting."""
        if offset < self._origin or offset > self._end - size:  # the sum could overflow in C
            return False
        if self._sure is not None:
            block = (offset - self._origin) >> _BLOCK_BITS
            last = (offset - self._origin + size - 1) >> _BLOCK_BITS
            while block <= last:
                if self._sure[block] == 0:
                    return False
                block += 1
        return True

    def _is_own(self, data: memoryview, position: int, size: int, offset: PhysicalOffset) -> bool:
        """True if the bytes at `position` say that they are the record of this size, offset, topic and queue."""
        low = data[position + 7]
        if (
            _int32(data, position) != size
            or (data[position + 4] << 16 | data[position + 5] << 8 | data[position + 6]) != _MAGIC_HIGH
            or (low != _MAGIC_V1_LOW and low != _MAGIC_V2_LOW)
            or _int64(data, position + 28) != offset
            or _int32(data, position + 12) != self._queue_id
        ):
            return False
        flag = data[position + 39]
        body = _BODY_AT + (_V6_MORE if flag & _BORN_HOST_V6 else 0) + (_V6_MORE if flag & _STORE_HOST_V6 else 0)
        topic_size = len(self._topic)
        if body > size:
            return False
        body_size = _int32(data, position + body - 4)
        name = body + body_size + (1 if low == _MAGIC_V1_LOW else 2)
        if body_size < 0 or name + topic_size > size:
            return False
        at = position + name
        said = data[at - 1] if low == _MAGIC_V1_LOW else data[at - 2] << 8 | data[at - 1]
        index = 0
        if said == topic_size:
            while index < topic_size and data[at + index] == self._topic[index]:
                index += 1
        return said == topic_size and index == topic_size

    def _is_enough(self, offset: PhysicalOffset, size: int) -> bool:
        """True if one more message of `size` bytes would exceed a limit. The first message is always taken."""
        if offset >= self._recent_from:
            return self.count >= self._recent_count or self.bytes + size > self._recent_bytes
        return self.count >= self._old_count or self.bytes + size > self._old_bytes

    def end_piece(self) -> None:
        """Put the last records taken into `pieces`."""
        if self._piece_end > self._piece_start:
            self.pieces.append(self._view[self._piece_start : self._piece_end])
        self._piece_start = 0
        self._piece_end = 0


def _int32(data: bytes | bytearray | memoryview, at: int) -> int:
    high = data[at]
    if high > 127:
        high -= 256
    return high << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def _int64(data: bytes | bytearray | memoryview, at: int) -> int:
    # Byte after byte, so that every step is 64 bits wide in C.
    low = data[at + 4]
    low = low << 8 | data[at + 5]
    low = low << 8 | data[at + 6]
    low = low << 8 | data[at + 7]
    return _int32(data, at) << 32 | low
