"""The half messages that are open, and the place of the half topic that stands for each transaction.

Owns        the standing of each half message from the progress on, the places of transactions that were put back.
Must not know   requests, how half messages and op messages are read and written.

A transaction is named by the queue offset of its half message. A copy that is put back carries that number in
TRAN_PREPARED_QUEUE_OFFSET, so a transaction keeps its name however often it moves, and ends once for all its places.

One byte a half message, from the progress on and some way back. Every half message below is ended, or was put back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import IntEnum

from rocketlake.base.errors import RemoteError
from rocketlake.broker.transaction.half import prepared_offset
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import QueueOffset
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["HalfLedger", "Standing", "not_known"]

_KEPT_BEHIND = 1 << 20
"""So many half messages behind the progress keep their end, by which an end that is sent again is answered."""


class Standing(IntEnum):
    """The state of a half message."""

    OPEN = 0
    ENDED = 1
    """Committed, rolled back or given up; it is not known any more which of them."""
    COMMITTED = 2
    ROLLED_BACK = 3
    GIVEN_UP = 4
    PUT_BACK = 5
    """The transaction goes on with a later copy of this half message."""
    GONE = 6
    """There is no half message at this place."""


class HalfLedger:
    """The standing of half messages by queue offset."""

    def __init__(self) -> None:
        self.is_known = False
        """True once recovery filled the ledger. No half message is ended, put back or passed before."""
        self.position = QueueOffset(0)
        """The first half message that is open."""
        self.op_position = QueueOffset(0)
        """The first op message that names a half message at or behind `position`."""
        self._base = QueueOffset(0)
        self._standings = bytearray()
        self._places: dict[QueueOffset, list[QueueOffset]] = {}
        """By name: all places of an open transaction that was put back, oldest first."""
        self._names: dict[QueueOffset, QueueOffset] = {}
        """Names of copies that do not carry their name: those of other brokers."""
        self._ops: deque[tuple[QueueOffset, QueueOffset]] = deque()
        """(offset of an op message, the last half offset it names), oldest first."""

    def begin(self, half_offset: QueueOffset, op_offset: QueueOffset) -> None:
        """Forget everything. Half messages before these offsets are done with, all others are open."""
        self.position = self._base = half_offset
        self.op_position = op_offset
        for part in (self._standings, self._places, self._names, self._ops):
            part.clear()

    # -- looking -------------------------------------------------------------------------------------------------------

    def at(self, half_offset: QueueOffset) -> Standing:
        """The standing of one place."""
        index = half_offset - self._base
        if index < 0:
            return Standing.ENDED
        return Standing(self._standings[index]) if index < len(self._standings) else Standing.OPEN

    def next_open(self, half_offset: QueueOffset) -> QueueOffset:
        """The first open place from this one on."""
        index = self._standings.find(0, max(0, half_offset - self._base))
        return max(half_offset, self._base + (len(self._standings) if index < 0 else index))

    def count_open(self, end: QueueOffset) -> int:
        """How many places before `end` are open."""
        return max(0, end - self._base - len(self._standings)) + self._standings.count(0)

    def name(self, half: StoredMessage) -> QueueOffset:
        """The queue offset that names the transaction of a half message."""
        return self._names.get(half.queue_offset, prepared_offset(half))

    def places(self, half: StoredMessage) -> Sequence[QueueOffset]:
        """All places of its transaction, the newest last."""
        return self._places.get(self.name(half), (half.queue_offset,))

    def is_open(self, name: QueueOffset) -> bool:
        """True if the transaction with this name is open. If it was never put back, its only place tells."""
        return name in self._places or self.at(name) is Standing.OPEN

    def standing(self, half: StoredMessage) -> Standing:
        """The standing of its transaction, whichever of the places of the transaction this is."""
        name = self.name(half)
        places = self._places.get(name)
        if places is not None:
            return self.at(places[-1])
        known = self.at(half.queue_offset)
        if known in (Standing.OPEN, Standing.PUT_BACK) and name != half.queue_offset:
            return Standing.ENDED
        return known

    def stands_alone(self, half_offset: QueueOffset) -> bool:
        """True if this place is open and the only one of its transaction, provided that its message carries no name."""
        index = half_offset - self._base
        if index < 0 or (index < len(self._standings) and self._standings[index]):
            return False
        return half_offset not in self._places and half_offset not in self._names

    def stands(self, half: StoredMessage) -> bool:
        """True if this place stands for an open transaction."""
        return self.standing(half) is Standing.OPEN and self.places(half)[-1] == half.queue_offset

    # -- changing ------------------------------------------------------------------------------------------------------

    def mark(self, half_offset: QueueOffset, standing: Standing) -> None:
        """Note the standing of one place."""
        index = half_offset - self._base
        if index >= 0:
            lacking = index + 1 - len(self._standings)
            if lacking > 0:
                self._standings.extend(bytes(lacking))
            self._standings[index] = standing

    def end(self, half: StoredMessage, how: Standing) -> Sequence[QueueOffset]:
        """Its transaction is ended. Returns all places of the transaction."""
        places: Sequence[QueueOffset] = self._places.pop(self.name(half), (half.queue_offset,))
        for place in places:
            self._names.pop(place, None)
            self.mark(place, how)
        return places

    def end_alone(self, half_offset: QueueOffset, how: Standing) -> bool:
        """`end` for a half message that `stands_alone`; False if it does not."""
        is_alone = self.stands_alone(half_offset)
        if is_alone:
            self.mark(half_offset, how)
        return is_alone

    def move(self, half: StoredMessage, half_offset: QueueOffset) -> None:
        """It was put back: from now on the copy at this offset stands for it."""
        name = self.name(half)
        places = self._places.setdefault(name, [name])
        for place in (*places[-1:], half.queue_offset):
            self.mark(place, Standing.PUT_BACK)
        places.append(half_offset)

    def link(self, name: QueueOffset, places: Sequence[QueueOffset]) -> None:
        """Note an open transaction that a start has found; `places`: its copies, oldest first."""
        known = self._places.setdefault(name, [name])
        for place in places:
            if place != name:
                self.mark(known[-1], Standing.PUT_BACK)
                known.append(place)

    def call(self, half_offset: QueueOffset, name: QueueOffset) -> None:
        """The copy at this offset does not carry its name."""
        self._names[half_offset] = name

    def named(self, op_offset: QueueOffset, half_offsets: Sequence[QueueOffset]) -> None:
        """The op message at this offset names these half messages."""
        self._ops.append((op_offset, max(half_offsets, default=QueueOffset(-1))))

    def skip_to(self, half_offset: QueueOffset) -> None:
        """Half messages below this one have expired."""
        if half_offset <= self.position:
            return
        for place in map(QueueOffset, range(self.position, half_offset)):
            if self.at(place) is Standing.OPEN:
                self.mark(place, Standing.GONE)
        for name in [name for name, places in self._places.items() if places[-1] < half_offset]:
            del self._places[name]

    def advance(self) -> None:
        """Move the positions over every half message that is done with."""
        self.position = self.next_open(self.position)
        while self._ops and self._ops[0][1] < self.position:
            self.op_position = self._ops.popleft()[0] + 1
        behind = self.position - self._base - _KEPT_BEHIND
        if behind > _KEPT_BEHIND:
            del self._standings[:behind]
            self._base += behind


def not_known() -> RemoteError:
    """The refusal of what must know the standing of a half message while the ledger is not filled."""
    return RemoteError(
        "the broker does not know yet which transactions are ended: its log is not dispatched",
        code=ResponseCode.SYSTEM_ERROR,
    )
