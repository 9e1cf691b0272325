"""Pass over the records of a commit log that recovery has nothing to do for: sound, in their queue, in the index.

Owns        which records those are.
Must not know   files, how a record is dispatched. dispatch_scan.py judges the records that it does not pass.

After a kill nearly all records of the walk are sound and dispatched, so none of these becomes an object. A record is
sound here if dispatch_scan.py finds it sound: the checks are the same (docs/internals/record.md).

Twin: known_records.pxd.
"""

from __future__ import annotations

from rocketlake.base.crc32 import crc32
from rocketlake.codec import record_layout as layout
from rocketlake.model import sys_flag as flags
from rocketlake.model.positions import PhysicalOffset

__all__ = ["KnownRecords", "QueueEnd"]

# Private copies, as C numbers: a twin may not share constants (docs/internals/compiled_twins.md).
_START = PhysicalOffset(0)
_MAGIC_V1 = layout.MAGIC_V1 & 0xFFFFFFFF
_MAGIC_V2 = layout.MAGIC_V2 & 0xFFFFFFFF
_LEAST_RECORD = layout.RECORD_BYTES_MIN
_BORN_HOST_V6 = flags.BORN_HOST_V6
_STORE_HOST_V6 = flags.STORE_HOST_V6
_V6_MORE = layout.HOST_V6_MORE
_STORED_AT = layout.STORE_MS_AT
_BODY_SIZE_AT = layout.BODY_LENGTH_AT  # both with IPv4 hosts
_TRANSACTION_MASK = flags.TRANSACTION_MASK
_TRANSACTION_PREPARED = flags.TRANSACTION_PREPARED
_TRANSACTION_ROLLBACK = flags.TRANSACTION_ROLLBACK
_QUEUE_OFFSET_MAX = layout.QUEUE_OFFSET_MAX
_SIGN_32 = 0x80000000
_NOTHING = memoryview(b"")


class QueueEnd:
    """How far a queue reaches."""

    __slots__ = ("end_physical", "is_seen")

    def __init__(self, end_physical: PhysicalOffset) -> None:
        self.end_physical = end_physical
        """End of the record of its last entry."""
        self.is_seen = False
        """True once a record of this queue was passed."""


class KnownRecords:
    """The records that queues and index have."""

    __slots__ = (
        "_below",
        "_bytes",
        "_index_below",
        "_safe_end",
        "_topic",
        "_topic_dead",
        "_topic_queues",
        "_view",
        "dead",
        "last_store_ms",
        "queues",
    )

    def __init__(self, below: PhysicalOffset, index_below: PhysicalOffset, safe_end: PhysicalOffset) -> None:
        """Records that start below `below` are all known; the index has those below `index_below`.

        The body's checksum tells where a log ends. Below `safe_end` it does not end, and of a record that consumers can
        read already, a wrong one would change nothing: there it is not worked out.
        """
        self.last_store_ms = 0
        """Store time of the last record passed, 0 without one."""
        self.queues: dict[bytes, dict[int, QueueEnd]] = {}
        """Topic -> queue id -> end."""
        self.dead: dict[bytes, PhysicalOffset] = {}
        """Deleted topic -> physical offset below which its records are dead (deletions.py)."""
        self._below = below
        self._index_below = index_below
        self._safe_end = safe_end
        self._topic = _NOTHING
        self._topic_queues: dict[int, QueueEnd] | None = None
        self._topic_dead = _START
        self._view = _NOTHING
        self._bytes = _NOTHING  # the same; the compiled form reads it without Python objects

    def skip(self, view: memoryview, base_offset: PhysicalOffset, check_crc: bool) -> int:
        """How many bytes from the start of `view` (at physical offset `base_offset`) are known and sound records."""
        self._view = self._bytes = view
        position, length = 0, len(view)
        while size := self._known_size(position, length - position, base_offset + position, check_crc):
            position += size
        self._view = self._bytes = _NOTHING  # the file must be free to go
        return position

    def _known_size(self, start: int, left: int, own_offset: PhysicalOffset, check_crc: bool) -> int:
        """Size of the record that starts at `start`, 0 if it must not be passed."""
        if left < _LEAST_RECORD:
            return 0
        size = self._number(start)
        magic = self._number(start + 4)
        if (magic != _MAGIC_V1 and magic != _MAGIC_V2) or size < _LEAST_RECORD or size > left:
            return 0
        end = start + size
        sys_flag = self._number(start + 36)
        born_more = _V6_MORE if sys_flag & _BORN_HOST_V6 else 0
        body = start + _BODY_SIZE_AT + born_more + (_V6_MORE if sys_flag & _STORE_HOST_V6 else 0) + 4
        if body + 3 > end:
            return 0
        queue_id = self._number(start + 12)
        queue_offset = self._long(start + 20)
        if self._long(start + 28) != own_offset or queue_id >= _SIGN_32 or not 0 <= queue_offset <= _QUEUE_OFFSET_MAX:
            return 0
        body_size = self._number(body - 4)
        if body_size >= _SIGN_32:
            return 0
        topic = body + body_size + (1 if magic == _MAGIC_V1 else 2)
        if topic + 2 > end:
            return 0
        topic_size = (
            self._bytes[topic - 1] if magic == _MAGIC_V1 else self._bytes[topic - 2] << 8 | self._bytes[topic - 1]
        )
        properties = topic + topic_size + 2
        if topic_size == 0 or topic_size > (127 if magic == _MAGIC_V1 else 32767) or properties > end:
            return 0
        properties_size = self._short(properties - 2)
        if properties_size > 32767 or properties + properties_size != end:
            return 0
        queue: QueueEnd | None = None
        kind = sys_flag & _TRANSACTION_MASK
        if own_offset >= self._below and not self._is_dead(topic, topic_size, own_offset):
            if kind != _TRANSACTION_PREPARED and kind != _TRANSACTION_ROLLBACK:
                queues = self._queues_of(topic, topic_size)
                queue = queues.get(queue_id) if queues is not None else None
                if queue is None or own_offset + size > queue.end_physical:
                    return 0
            if own_offset >= self._index_below and kind != _TRANSACTION_ROLLBACK:
                text = bytes(self._view[properties:end])
                if b"KEYS\x01" in text or b"UNIQ_KEY\x01" in text:
                    return 0
        is_doubtful = own_offset + size > self._safe_end
        if is_doubtful and properties_size and self._bytes[end - 1] == 0:  # perhaps torn: log_walk.py looks
            return 0
        is_checked = check_crc and is_doubtful
        if is_checked and body_size > 0 and self._crc(body, body_size) != self._number(start + 8):
            return 0
        if queue is not None:
            queue.is_seen = True
        self.last_store_ms = self._long(start + _STORED_AT + born_more)
        return size

    def _queues_of(self, begin: int, size: int) -> dict[int, QueueEnd] | None:
        """The queues of the topic whose name lies there."""
        self._find_topic(begin, size)
        return self._topic_queues

    def _is_dead(self, begin: int, size: int, own_offset: PhysicalOffset) -> bool:
        """True if the topic of this record was deleted after the record was written."""
        if not self.dead:
            return False
        self._find_topic(begin, size)
        return own_offset < self._topic_dead

    def _find_topic(self, begin: int, size: int) -> None:
        """The known queues of the topic whose name lies there; mostly the topic of the record before."""
        if size == len(self._topic) and self._is_same_topic(begin, size):
            return
        name = bytes(self._view[begin : begin + size])
        self._topic = memoryview(name)
        self._topic_queues = self.queues.get(name)
        self._topic_dead = self.dead.get(name, _START)

    def _is_same_topic(self, begin: int, size: int) -> bool:
        index = 0
        while index < size and self._bytes[begin + index] == self._topic[index]:
            index += 1
        return index == size

    def _crc(self, begin: int, size: int) -> int:
        return crc32(self._view[begin : begin + size])

    def _short(self, at: int) -> int:
        return self._bytes[at] << 8 | self._bytes[at + 1]

    def _number(self, at: int) -> int:
        first = self._bytes[at]
        return first << 24 | self._bytes[at + 1] << 16 | self._bytes[at + 2] << 8 | self._bytes[at + 3]

    def _long(self, at: int) -> int:
        high = self._number(at)
        return (high - (_SIGN_32 + _SIGN_32) if high >= _SIGN_32 else high) << 32 | self._number(at + 4)
