"""Does a queue still hold what was read of it, or was its topic made anew while the query was stopped?

Owns        a mark for each queue in the stream's offsets: where one message lay that was read, and when it was stored.
Must not know   what follows from a queue that was made anew (progress.py).

One mark does for the life of a checkpoint: a topic made anew begins at offset 0 again, so it has another message at the
mark's offset, or it is too short to have one, which the offsets tell. A mark is renewed when its message has expired.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from rocketlake.base.errors import ProtocolError, UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.columns import Records, record_starts
from rocketlake.spark.source.brokers import Bounds, Brokers, PullOutcome, of_each
from rocketlake.spark.source.offsets import MARKS, Offsets, describe
from rocketlake.spark.source.options import SourceOptions

__all__ = ["Incarnations", "Mark", "marks_in", "with_marks"]


@dataclass(frozen=True, slots=True)
class Mark:
    """One message of a queue."""

    offset: int
    place: int
    store_ms: int


def marks_in(nested: Mapping[str, Any]) -> dict[MessageQueue, Mark]:
    """The marks of a stream's offsets; offsets of earlier releases have none."""
    return {
        MessageQueue(topic, broker, int(queue_id)): Mark(*values)
        for topic, brokers in nested.get(MARKS, {}).items()
        for broker, queues in brokers.items()
        for queue_id, values in queues.items()
    }


def with_marks(nested: Mapping[str, Any], marks: Mapping[MessageQueue, Mark]) -> dict[str, Any]:
    """Offsets with marks, in canonical order."""
    found: dict[str, Any] = {}
    for queue in sorted(marks):
        values = list(astuple(marks[queue]))
        found.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = values
    return {**nested, MARKS: found} if found else dict(nested)


class Incarnations:
    """The marks of one stream."""

    def __init__(self, brokers: Brokers, options: SourceOptions) -> None:
        self._brokers = brokers
        self._options = options
        self._unchecked: set[MessageQueue] = set()
        self.marks: dict[MessageQueue, Mark] = {}
        self.remade: set[MessageQueue] = set()
        """Queues that hold other messages than those that were read."""

    def know(self, marks: Mapping[MessageQueue, Mark]) -> None:
        """Marks of a checkpoint. Those that this process did not make are still to be checked."""
        new = marks.keys() - self.marks.keys() - self.remade
        self.marks |= {queue: marks[queue] for queue in new}
        self._unchecked |= new

    def unchecked(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Those whose mark was not compared yet."""
        return self._unchecked & set(queues)

    def check(self, bounds: Mapping[MessageQueue, Bounds]) -> None:
        """Compare the marks of these queues with what they hold."""
        due = self.unchecked(bounds.keys())
        if not due:
            return
        there = [queue for queue in due if bounds[queue].low <= self.marks[queue].offset < bounds[queue].high]
        found = self._look({queue: self.marks[queue].offset for queue in there})
        for queue, mark in found.items():
            if mark is not None and mark != self.marks[queue]:
                self.remade.add(queue)
        self._unchecked -= due

    def begin_anew(self, queue: MessageQueue) -> None:
        """What was read of this queue is forgotten."""
        self.remade.discard(queue)
        self.marks.pop(queue, None)

    def note(self, start: Offsets, ends: Offsets, bounds: Mapping[MessageQueue, Bounds]) -> None:
        """Mark queues that move and have no mark whose message is still there."""
        wanted = {}
        for queue, end in ends.items():
            mark = self.marks.get(queue)
            is_gone = mark is None or (queue in bounds and mark.offset < bounds[queue].low)
            if is_gone and end > start.get(queue, end):
                wanted[queue] = end - 1
        for queue, mark in self._look(wanted).items():
            if mark is not None:
                self.marks[queue] = mark

    def _look(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, Mark | None]:
        return self._brokers.run(
            of_each(
                self._brokers,
                self._options,
                offsets.keys(),
                lambda queue: f"reading {describe(queue)} at offset {offsets[queue]}",
                lambda queue: self._mark(queue, offsets[queue]),
            )
        )

    async def _mark(self, queue: MessageQueue, offset: int) -> Mark | None:
        pulled = await self._brokers.pull(queue, offset, 1, filtered=False)
        if pulled.outcome is not PullOutcome.FOUND:
            return None
        try:
            records = Records(pulled.data, record_starts(pulled.data))
        except (ProtocolError, UsageError):
            return None  # who reads the queue says what is wrong with it
        if int(records.queue_offsets[0]) != offset:
            return None
        return Mark(offset, int(records.physical_offsets[0]), int(records.store_ms[0]))
