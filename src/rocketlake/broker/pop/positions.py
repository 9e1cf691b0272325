"""How far each group has popped each queue.

Owns        the next offset to hand out, and when it may become the committed offset of the group.
Must not know   messages, requests, files.

Invariant: a committed offset never passes messages whose check point may still be lost: it is on disk, and in a group
confirmed. So after a crash a message comes twice at worst; none is lost.

With the offsets of groups the table gets a mark: up to which record of the timer topic all check points are in these
offsets. It is an offset of RocketMQ's group CID_RMQ_SYS_REVIVE_GROUP, saved and copied in one piece with the others; a
start goes on there (catch_up.py). Apache's broker does not look at it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rocketlake.broker.offsets.table import NO_OFFSET, OffsetTable
from rocketlake.model.pop import REVIVE_GROUP
from rocketlake.model.topic import TIMER_TOPIC
from rocketlake.store.message_store import MessageStore

__all__ = ["TIMER_QUEUE", "Move", "PopPositions"]

TIMER_QUEUE = 0

_Key = tuple[str, str, int]
"""Group, topic, queue id."""


class _Place(NamedTuple):
    """Where a group goes on in a queue."""

    offset: int
    first: int
    last: int
    """The numbers of its moves that are not committed."""


class Move(NamedTuple):
    """A step of a group in a queue that is not secured yet."""

    key: _Key
    offset: int
    number: int
    before: _Place | None


class PopPositions:
    """The next offset of each group in each queue."""

    def __init__(self, store: MessageStore, offsets: OffsetTable) -> None:
        self._store = store
        self._offsets = offsets
        self._next: dict[_Key, _Place] = {}
        """Of the groups and queues that have a move which is not committed."""
        self._unsafe: deque[tuple[int, int, _Key, int, int]] = deque()
        """(end of the log that must be safe, number of the move, key, next offset, mark), oldest first."""
        self._moves = 0

    def __len__(self) -> int:
        """Moves that are not committed yet."""
        return len(self._unsafe)

    def __iter__(self) -> Iterator[_Key]:
        """Groups and queues with such moves."""
        return iter(self._next)

    def next_offset(self, group: str, topic: str, queue_id: int) -> int:
        """The offset to go on at, -1 if the group has none yet. A reset that waits is taken by this call."""
        restart = self._offsets.take_reset(group, topic, queue_id)
        if restart >= 0:
            self._next.pop((group, topic, queue_id), None)
            return restart
        return self.place(group, topic, queue_id)

    def place(self, group: str, topic: str, queue_id: int) -> int:
        """The same; a reset is left for the next pop."""
        known = self._next.get((group, topic, queue_id))
        committed = self._offsets.query(group, topic, queue_id)
        return committed if known is None else max(known.offset, committed)

    def not_at_end(self, group: str, topic: str, queue_ids: Iterable[int]) -> Iterator[tuple[int, int | None]]:
        """Those of the queues in which the group may find something, and how much: most of a large topic are read out.

        None for a queue in which the group has not begun.
        """
        committed = self._offsets.queues_of(group, topic)
        if committed is None:
            yield from ((queue_id, None) for queue_id in queue_ids)
            return
        moved, max_offset = self._next, self._store.max_offset
        for queue_id in queue_ids:
            known = moved.get((group, topic, queue_id))
            offset = committed.get(queue_id, NO_OFFSET)
            if known is not None and known.offset > offset:
                offset = known.offset
            left = max_offset(topic, queue_id) - offset
            if left:
                yield queue_id, left if offset >= 0 else None

    def move(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Go on at `offset`, which is committed when today's end of the log is safe."""
        self.secure([self.advance((group, topic, queue_id), offset)])

    def advance(self, key: _Key, offset: int) -> Move:
        """Go on at `offset`. `secure` or `take_back` follows in the same turn of the loop."""
        self._moves += 1
        before = self._next.get(key)
        self._next[key] = _Place(offset, self._moves if before is None else before.first, self._moves)
        return Move(key, offset, self._moves, before)

    def secure(self, moves: Sequence[Move]) -> None:
        """Commit these moves, oldest first, when today's end of the log is safe."""
        if not moves:
            return
        mark = self._store.next_offset(TIMER_TOPIC, TIMER_QUEUE)
        end = self._store.max_physical_offset
        self._unsafe.extend([(end, move.number, move.key, move.offset, mark) for move in moves])
        self.settle()

    def take_back(self, moves: Sequence[Move]) -> None:
        """Undo these moves, oldest first, which are the last ones in their queues."""
        for move in reversed(moves):
            assert self._next[move.key].last == move.number
            if move.before is None:
                del self._next[move.key]
            else:
                self._next[move.key] = move.before

    def hurry(self) -> None:
        """Make what was handed out safe soon. A quiet log is synced rarely, and until then the group seems behind."""
        self.settle()
        if self._unsafe:
            self._store.sync_soon()

    def settle(self) -> None:
        """Commit the offsets that are safe by now."""
        kept_end = self._store.kept_end
        mark = NO_OFFSET
        while self._unsafe and self._unsafe[0][0] <= kept_end:
            _, move, key, offset, mark = self._unsafe.popleft()
            place = self._next.get(key)
            if place is None or move < place.first:
                continue  # the group was moved elsewhere meanwhile
            self._offsets.commit(*key, offset)
            if place.last == move:
                del self._next[key]
        if mark not in (NO_OFFSET, self.mark):
            self._offsets.commit(REVIVE_GROUP, TIMER_TOPIC, TIMER_QUEUE, mark)

    @property
    def mark(self) -> int:
        """The committed offsets tell of all check points before this record of the timer topic; -1: not known."""
        return self._offsets.query(REVIVE_GROUP, TIMER_TOPIC, TIMER_QUEUE)

    def forget_topic(self, topic: str) -> None:
        """The topic is gone."""
        for key in [key for key in self._next if key[1] == topic]:
            del self._next[key]

    def clear(self) -> None:
        """Another broker hands out now, or the log was cut: what is not safe may be taken back."""
        self._next.clear()
        self._unsafe.clear()
