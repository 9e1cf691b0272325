"""How far the half topic and the op topic are done with.

Owns        the next queue offset of both, and when they may be saved.
Must not know   messages, files.

Both are offsets of the group CID_RMQ_SYS_TRANS, as in RocketMQ: our broker goes on where Apache's stopped, and the
other way round.

Invariant: the table never says that a half message is done with while its committed message, or the copy that was put
back, may still be lost: it is on disk, and in a group confirmed. After a crash a producer may be asked twice; no half
message is lost.
"""

from __future__ import annotations

from collections import deque

from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.transaction.half import HALF_QUEUE
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.topic import HALF_TOPIC, OP_TOPIC
from rocketlake.store.message_store import MessageStore

__all__ = ["TransactionProgress"]

_GROUP = "CID_RMQ_SYS_TRANS"


class TransactionProgress:
    """Next queue offsets."""

    def __init__(self, store: MessageStore, offsets: OffsetTable) -> None:
        self._store = store
        self._offsets = offsets
        self._unsafe: deque[tuple[PhysicalOffset, QueueOffset, QueueOffset]] = deque()
        """(end of the log when the progress got there, half offset, op offset), oldest first."""
        self._last: tuple[QueueOffset, QueueOffset] | None = None

    def saved(self) -> tuple[QueueOffset, QueueOffset]:
        """(half offset, op offset) to go on at after a start, moved into the queues if they lie outside."""
        self._unsafe.clear()
        half_offset = QueueOffset(self._offsets.query(_GROUP, HALF_TOPIC, HALF_QUEUE))
        op_offset = QueueOffset(self._offsets.query(_GROUP, OP_TOPIC, HALF_QUEUE))
        self._last = self._inside(HALF_TOPIC, half_offset), self._inside(OP_TOPIC, op_offset)
        return self._last

    def move(self, half_offset: QueueOffset, op_offset: QueueOffset) -> None:
        """Half messages before these offsets are done with. That is saved when today's end of the log is safe."""
        if (half_offset, op_offset) != self._last:
            self._last = half_offset, op_offset
            self._unsafe.append((self._store.max_physical_offset, half_offset, op_offset))
        self.settle()

    def settle(self) -> None:
        """Commit the offsets that are safe by now."""
        kept_end = self._store.kept_end
        while self._unsafe and self._unsafe[0][0] <= kept_end:
            _, half_offset, op_offset = self._unsafe.popleft()
            self._offsets.commit(_GROUP, HALF_TOPIC, HALF_QUEUE, half_offset)
            self._offsets.commit(_GROUP, OP_TOPIC, HALF_QUEUE, op_offset)

    def _inside(self, topic: str, offset: QueueOffset) -> QueueOffset:
        low = max(QueueOffset(0), self._store.min_offset(topic, HALF_QUEUE))
        high = self._store.max_offset(topic, HALF_QUEUE)
        return min(max(offset, low), max(high, low))
