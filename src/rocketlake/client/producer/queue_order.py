"""The order of sends to one queue is kept while they are repeated on a new master.

Owns        which send may go out now, which has to wait for those before it, which must not be repeated any more.
Must not know   how a message is sent, how a master is found.

Usually sends to a queue go out as they come, many at a time. When one of them fails, those behind it mostly fail, too.
Then the first one is repeated alone, when the ends of all that went out behind it are known. When a master has taken
it, the others follow in the order in which they came. A send behind which another one is stored already is not
repeated: its message would come after a later one.
"""

from __future__ import annotations

import asyncio
import itertools
from heapq import heapify, heappop, heappush

from rocketlake.base.clock import Clock

__all__ = ["QueueOrder", "Turn"]


class Turn:
    """One send to the queue."""

    __slots__ = ("_order", "_woken", "is_late", "is_waiting", "number")

    def __init__(self, order: QueueOrder, number: int) -> None:
        self._order = order
        self._woken: asyncio.Future[None] | None = None
        self.number = number
        self.is_waiting = False
        """True while it has a place in the order's heap."""
        self.is_late = False
        """True when a later message is stored already: this one must not be sent again."""

    def __lt__(self, other: Turn) -> bool:
        return self.number < other.number

    async def wait(self, seconds: float, clock: Clock) -> bool:
        """Until this send may go out; False when the time was up before, or it is late."""
        order, until = self._order, clock.monotonic() + seconds
        while not self.is_late and not order.may_go(self):
            self._woken = asyncio.get_running_loop().create_future()
            order.line_up(self)
            if not await clock.wait(self._woken, until - clock.monotonic()):
                order.give_place(self)
                return False
        if self.is_late:
            order.give_place(self)
            return False
        order.went(self)
        return True

    def failed(self) -> None:
        """It is not stored, or that is not known: the sends behind it wait from now on, also while it pauses."""
        self._order.is_broken = True
        self._order.line_up(self)
        self._order.ended(self)

    def stored(self) -> None:
        """The sends behind it may follow; those before it, if there are any, are not sent any more."""
        order = self._order
        for turn in order.turns:
            if turn is self:
                break
            turn.is_late = True
            turn.wake()
        if order.first is self:
            order.is_broken = False
        order.ended(self)

    def leave(self) -> None:
        """Its end is known, or it is given up."""
        del self._order.turns[self]
        self._order.out.discard(self)
        self._order.give_place(self)

    def wake(self) -> None:
        """It may go out, or is late."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)


class QueueOrder:
    """All sends to one queue whose end is not known yet, in the order in which they came."""

    __slots__ = ("_next", "_numbers", "is_broken", "out", "turns", "waiting")

    def __init__(self) -> None:
        self.turns: dict[Turn, None] = {}
        self.waiting: list[Turn] = []
        """Those that may not go out yet: a heap."""
        self.out: set[Turn] = set()
        """Those that a broker was sent, and has not answered yet."""
        self.is_broken = False
        """True from a failure until a master takes the first send."""
        self._numbers = itertools.count()
        self._next: Turn | None = None
        """The one that was woken and has not gone out yet: no other one goes before it."""

    @property
    def first(self) -> Turn:
        """The oldest send."""
        return next(iter(self.turns))

    def enter(self) -> Turn:
        """A place behind all sends so far; `Turn.leave` gives it up."""
        turn = Turn(self, next(self._numbers))
        self.turns[turn] = None
        if len(self.turns) == 1:
            self.is_broken = False
        return turn

    def may_go(self, turn: Turn) -> bool:
        """True when no send before this one has still to go out, and none behind it may have been stored."""
        if self._next is not None:
            return self._next is turn
        if self.is_broken:
            return self._may_be_repeated(turn)
        return not self.waiting or turn < self.waiting[0]

    def line_up(self, turn: Turn) -> None:
        """This one has still to go out: no send behind it goes before it."""
        if not turn.is_waiting and self._next is not turn:
            turn.is_waiting = True
            heappush(self.waiting, turn)

    def went(self, turn: Turn) -> None:
        """This one goes out now; perhaps the next one may, too."""
        self.out.add(turn)
        self.give_place(turn)

    def ended(self, turn: Turn) -> None:
        """A broker has answered this one, or will not any more."""
        self.out.discard(turn)
        self._wake_next()

    def give_place(self, turn: Turn) -> None:
        """This one waits no longer."""
        if self._next is turn:
            self._next = None
        if turn.is_waiting:
            turn.is_waiting = False
            self.waiting.remove(turn)
            heapify(self.waiting)
        self._wake_next()

    def _wake_next(self) -> None:
        if self._next is None and self.waiting and (not self.is_broken or self._may_be_repeated(self.waiting[0])):
            self._next = heappop(self.waiting)
            self._next.is_waiting = False
            self._next.wake()

    def _may_be_repeated(self, turn: Turn) -> bool:
        """All others wait behind it. One of them that is still out may be stored: then this one comes too late."""
        return self.first is turn and not self.out
