"""Queue offset by time.

Owns        the rule that turns a store time into a queue offset, lower and upper bound.
Must not know   how a record's store time is read (a callable gives it), requests.

Source of the rule: Apache's ConsumeQueue.getOffsetInQueueByTime. Store times are taken to rise along a queue; where
they do not (a clock set back), any offset with a fitting neighbour may come out, as in Apache.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import Millis
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.consume_queue.queue import ConsumeQueue, first_offset

__all__ = ["StoreTime", "offset_by_time", "store_ms_at"]

StoreTime = Callable[[PhysicalOffset], Millis]
"""Physical offset -> store time of its record in epoch ms, -1 when it cannot be read."""


def store_ms_at(queue: ConsumeQueue, offset: QueueOffset, store_time: StoreTime) -> Millis:
    """Store time of the record at a queue offset, -1 when there is none."""
    entry = queue.entry(offset)
    return Millis(-1) if entry is None else store_time(entry[0])


def offset_by_time(
    queue: ConsumeQueue, ms: Millis, store_time: StoreTime, *, min_physical: PhysicalOffset, upper: bool = False
) -> QueueOffset:
    """The first queue offset stored at or after `ms`; with `upper` the last one stored at or before `ms`.

    Between min and max offset always: max when all is older (lower), min when all is newer (upper).
    """
    low = queue.min_offset(min_physical)
    high = queue.max_offset
    if low >= high:
        return high
    # What cannot be read (-1) counts as older than all that can.
    if upper:
        # One before the first that is later: among equal times that is the last.
        return max(low, first_offset(lambda at: store_ms_at(queue, at, store_time) > ms, low, high) - 1)
    return first_offset(lambda at: store_ms_at(queue, at, store_time) >= ms, low, high)
