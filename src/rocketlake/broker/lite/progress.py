"""How far groups are in light queues: what is committed, what is in flight.

Owns        where a group begins, acknowledgements, new invisible times, where an offset option leads.
Must not know   requests, who subscribes.

A light queue is read in order: nothing of it is handed out while a message of it is in flight. The table of what is in
flight is in memory only: after a start a group goes on behind the last message that it acknowledged.

Departure from RocketMQ: a group that is new to a lite topic begins at its first message. Apache begins there only while
that is in memory, and else at the last one.
"""

from __future__ import annotations

from rocketlake.broker.lite.light_queues import LightQueues
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.pop.order_table import OrderTable
from rocketlake.model.lite import LITE_QUEUE, light_queue, split_light_queue
from rocketlake.protocol.bodies.lite import LiteOffset, LiteOffsetKind

__all__ = ["LiteProgress", "OrderKey"]

OrderKey = tuple[str, str, int]
"""Group, light queue, queue id."""

_POLICY_MIN, _POLICY_MAX = 1, 2
_WITHOUT_ENDS = (LiteOffset(), LiteOffset(value=_POLICY_MIN))


class LiteProgress:
    """Of all groups of a broker."""

    def __init__(self, offsets: OffsetTable, orders: OrderTable, queues: LightQueues) -> None:
        """`orders`: a table of its own, that is not saved."""
        self._offsets = offsets
        self.orders = orders
        self._queues = queues

    def key(self, group: str, parent: str, lite: str) -> OrderKey:
        """Where the group's progress is kept."""
        return group, light_queue(parent, lite), LITE_QUEUE

    def next_number(self, key: OrderKey) -> int:
        """The first message that the group has not acknowledged; 0 for a new group."""
        if self._offsets.has_reset(*key):
            self.orders.forget(key)
            self._offsets.commit(*key, self._offsets.take_reset(*key))
        return max(0, self._offsets.query(*key))

    def has_more(self, group: str, parent: str, lite: str) -> bool:
        """True if there are messages that the group has not acknowledged."""
        newest = self._queues.newest(parent, lite)
        return newest is not None and newest.end > self.next_number(self.key(group, parent, lite))

    def acknowledge(self, key: OrderKey, number: int, pop_ms: int) -> int:
        """The message is done with: STALE, ILLEGAL, or the number that the group goes on with."""
        found = self.orders.acknowledge(key, number, pop_ms, self.next_number(key))
        if found >= 0:
            self._offsets.commit(*key, found)
            if self.orders.handed(key) < 0:
                self.orders.forget(key)  # an idle lite topic costs nothing here
        return found

    def move(self, key: OrderKey, number: int) -> None:
        """The messages before this number are gone."""
        self._offsets.commit(*key, number)

    def check_option(self, option: LiteOffset) -> None:
        """RemoteError for an option that needs the ends of light queues, while these are not all known."""
        if option not in _WITHOUT_ENDS:
            self._queues.check_ready()

    def begin_at(self, group: str, parent: str, lite: str, option: LiteOffset) -> None:
        """Have the group begin where the option says. What is in flight stays so, if it begins there already."""
        key, newest = self.key(group, parent, lite), self._queues.newest(parent, lite)
        number: int | None = None
        if option.type is LiteOffsetKind.OFFSET and option.value >= 0:
            number = option.value
        elif option.type is LiteOffsetKind.POLICY and option.value == _POLICY_MIN:
            number = 0
        elif option.type is LiteOffsetKind.POLICY and option.value == _POLICY_MAX:
            number = newest.end if newest is not None else None
        elif option.type is LiteOffsetKind.TAIL_N and self._offsets.query(*key) >= 0:
            number = max(0, self._offsets.query(*key) - option.value)
        if number is not None:
            number = min(number, self._end(parent, lite))  # behind it the number of a later message would be hidden
        if number is not None and number != self.next_number(key):
            self.orders.forget(key)
            self._offsets.commit(*key, number)

    def forget_parent(self, parent: str) -> None:
        """The parent topic is gone: nothing of it is in flight, and what comes if it is made anew waits for nothing."""
        for key in list(self.orders):
            names = split_light_queue(key[1])
            if names is not None and names[0] == parent:
                self.orders.forget(key)

    def lower_to_ends(self) -> None:
        """No group is behind the end of a light queue: a crash took messages that were acknowledged.

        Of a light queue that lost all its messages the next one has a number from the log's end on.
        """
        for group, topic, offsets in list(self._offsets.all()):
            names = split_light_queue(topic)
            if names is None:
                continue
            end = self._end(*names)
            if offsets.get(LITE_QUEUE, 0) > end:
                self._offsets.commit(group, topic, LITE_QUEUE, end)

    def _end(self, parent: str, lite: str) -> int:
        """No later message has a lower number."""
        newest = self._queues.newest(parent, lite)
        return newest.end if newest is not None else self._queues.first_number
