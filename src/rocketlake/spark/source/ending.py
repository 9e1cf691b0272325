"""Where a stream ends, if it has an end: a bounded replay.

Owns        the last offset of each queue by endingOffsets, endingTimestamp and endingOffsetsByTimestamp.
Must not know   micro-batches, Spark.

A time is looked up again while new messages come, until a message stored at or after it is seen: from then on the
queue's end is fixed. So an end in the future is exact, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.source.brokers import Bounds, Brokers
from rocketlake.spark.source.offsets import Offsets
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.positions import Kind, Position
from rocketlake.spark.source.seek import offsets_of_times

__all__ = ["StreamEnding"]


class StreamEnding:
    """The ends of a stream's queues."""

    def __init__(self, brokers: Brokers, options: SourceOptions) -> None:
        self._brokers = brokers
        self._options = options
        self._fixed: Offsets = {}
        self._times: dict[MessageQueue, int] = {}
        self._looked_to: Offsets = {}
        self._known: set[MessageQueue] = set()

    def caps(self, bounds: Mapping[MessageQueue, Bounds]) -> Offsets:
        """The end of each of these queues that has one."""
        new = bounds.keys() - self._known
        if new:
            self._learn({queue: bounds[queue] for queue in new})
        self._look_up(bounds)
        return self._fixed

    def _learn(self, bounds: Mapping[MessageQueue, Bounds]) -> None:
        for queue, position in self._positions(bounds).items():
            if position.kind is Kind.TIME:
                self._times[queue] = position.number
            elif position.kind is Kind.OFFSET:
                self._fixed[queue] = position.number
        self._known |= bounds.keys()

    def _positions(self, bounds: Mapping[MessageQueue, Bounds]) -> Mapping[MessageQueue, Position]:
        if not self._known:
            return self._options.ending.of(bounds.keys())
        # Ends that were written down do not bound a queue made later.
        listed = self._options.ending
        return {
            queue: listed.of_all or listed.by_topic.get(queue.topic) or Position(Kind.OFFSET, bounds[queue].low)
            for queue in bounds
        }

    def _look_up(self, bounds: Mapping[MessageQueue, Bounds]) -> None:
        times = {
            queue: time_ms
            for queue, time_ms in self._times.items()
            if queue in bounds and bounds[queue].high > self._looked_to.get(queue, -1)
        }
        if not times:
            return
        found = self._brokers.run(offsets_of_times(self._brokers, self._options, times, bounds))
        for queue, offset in found.items():
            self._looked_to[queue] = bounds[queue].high
            if offset < bounds[queue].high:
                self._fixed[queue] = offset
                del self._times[queue]
