"""How far a group is in a queue that it pops.

Owns        the one value for all figures about a group: lag, metrics, answers to administrators.
Must not know   how the figures are shown.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketlake.broker.pop.in_flight import InFlight
from rocketlake.broker.pop.order_table import OrderTable
from rocketlake.broker.pop.positions import PopPositions

__all__ = ["PopProgress", "QueueProgress"]


class QueueProgress(NamedTuple):
    """One group in one queue."""

    next_offset: int
    """What is handed out next, -1 if that is not known. The committed offset may be a little less: until it is safe."""
    handed: int
    """The same for pops in order, whose messages in flight lie behind the committed offset; -1 if there are none."""
    in_flight: int
    overdue: int
    """Messages before `next_offset` that are neither acknowledged nor brought back: in time, or not."""


class PopProgress:
    """Of all groups of one broker."""

    def __init__(self, positions: PopPositions, orders: OrderTable, in_flight: InFlight) -> None:
        self._positions = positions
        self._orders = orders
        self._in_flight = in_flight

    def places(self) -> set[tuple[str, str]]:
        """Groups and topics with something popped and not committed. Of others the committed offset tells all."""
        return {(group, topic) for part in (self._positions, self._orders, self._in_flight) for group, topic, _ in part}

    def of(self, group: str, topic: str, queue_id: int) -> QueueProgress:
        """This group in this queue."""
        key = group, topic, queue_id
        count = self._in_flight.of(key)
        return QueueProgress(self._positions.place(*key), self._orders.handed(key), count.in_time, count.overdue)
