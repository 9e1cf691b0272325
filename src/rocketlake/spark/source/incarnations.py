"""Tells whether a queue still holds the messages read of it: its topic may be made anew, its broker may lose log.

Owns        the marks of each queue in the stream's offsets: the place of some messages, and their store times.
Must not know   how a stream goes on in a queue that changed (progress.py).

The newest mark is the last message that was read; the others lie before it, two of them where the queue began and in
its middle when they were made. A topic made anew holds other messages at all marks. A broker that lost the end of its
log (power cut, ASYNC_FLUSH) and went on holds other messages only from the place where it lost them: there the stream
goes on, so that no message is read twice and no newer one is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.columns import READ_FAULTS, Records, record_starts
from rocketlake.spark.source.brokers import Bounds, Brokers, PullOutcome, of_each
from rocketlake.spark.source.offsets import MARKS, Offsets, describe
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.seek import offsets_of_times

__all__ = ["Incarnations", "Mark", "Marks", "marks_in", "with_marks"]

_EARLY_MARKS = 2


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """One message of a queue."""

    offset: int
    place: int
    store_ms: int


Marks = tuple[Mark, ...]
"""The marks of one queue, by offset."""
_Place = tuple[MessageQueue, int]


def marks_in(nested: Mapping[str, Any]) -> dict[MessageQueue, Marks]:
    """The marks of a stream's offsets; offsets of older releases have none, or a single mark for each queue."""
    return {
        MessageQueue(topic, broker, int(queue_id)): tuple(
            Mark(*values) for values in ([marks] if isinstance(marks[0], int) else marks)
        )
        for topic, brokers in nested.get(MARKS, {}).items()
        for broker, queues in brokers.items()
        for queue_id, marks in queues.items()
        if marks
    }


def with_marks(nested: Mapping[str, Any], marks: Mapping[MessageQueue, Marks]) -> dict[str, Any]:
    """Offsets with marks, in canonical order."""
    found: dict[str, Any] = {}
    for queue in sorted(marks):
        values = [list(astuple(mark)) for mark in marks[queue]]
        found.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = values
    return {**nested, MARKS: found} if found else dict(nested)


class Incarnations:
    """The marks of one stream."""

    def __init__(self, brokers: Brokers, options: SourceOptions) -> None:
        self._brokers = brokers
        self._options = options
        self._unchecked: set[MessageQueue] = set()
        self.marks: dict[MessageQueue, Marks] = {}
        self.remade: set[MessageQueue] = set()
        """Queues that hold other messages than those that were read."""
        self.cut: Offsets = {}
        """Queues that hold other messages from here on, before the end of what was read."""
        self.same: set[MessageQueue] = set()
        """Queues that at the last comparison held the messages read, but had become shorter."""

    @property
    def changed(self) -> set[MessageQueue]:
        """Queues that do not hold all that was read."""
        return self.remade | self.cut.keys()

    def know(self, marks: Mapping[MessageQueue, Marks]) -> None:
        """Take the marks of a checkpoint; those that this process did not make must still be checked."""
        new = marks.keys() - self.marks.keys() - self.remade
        self.marks |= {queue: marks[queue] for queue in new}
        self._unchecked |= new

    def unchecked(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Queues whose marks were not compared yet."""
        return self._unchecked & set(queues)

    def replaced(self, queues: Collection[MessageQueue], bounds: Mapping[MessageQueue, Bounds]) -> set[MessageQueue]:
        """Queues with another message at the newest mark now.

        A queue that lost its end may already be longer than before at the next look.
        """
        newest = {queue: self.marks[queue][-1] for queue in queues if self.marks.get(queue)}
        asked = {(queue, mark.offset) for queue, mark in newest.items() if mark.offset >= bounds[queue].low}
        return {place[0] for place, mark in self._look(asked).items() if mark not in (None, newest[place[0]])}

    def check(self, bounds: Mapping[MessageQueue, Bounds], suspects: Iterable[MessageQueue] = ()) -> None:
        """Compare marks with the queues' messages: for queues not checked yet, and for the suspects."""
        due = (self.unchecked(bounds.keys()) | set(suspects)) & self.marks.keys()
        if not due:
            return
        asked = {
            (queue, mark.offset)
            for queue in due
            for mark in self.marks[queue]
            if bounds[queue].low <= mark.offset < bounds[queue].high
        }
        found = self._look(asked)
        for queue in due:
            self._judge(queue, bounds[queue], found)
        self._unchecked -= due

    def _judge(self, queue: MessageQueue, bounds: Bounds, found: Mapping[_Place, Mark | None]) -> None:
        # A message that cannot be read now proves nothing.
        there = [mark for mark in self.marks[queue] if found.get((queue, mark.offset)) is not None]
        same = [mark for mark in there if found[queue, mark.offset] == mark]
        behind = same[-1].offset if same else -1
        other = [
            mark for mark in self.marks[queue] if mark.offset > behind and (mark in there or mark.offset >= bounds.high)
        ]
        if same and other:
            self.cut[queue] = self._first_after(queue, Bounds(behind + 1, min(other[0].offset, bounds.high)), other[0])
        elif there and not same:
            self.remade.add(queue)
        (self.same.add if same and not other else self.same.discard)(queue)

    def _first_after(self, queue: MessageQueue, between: Bounds, lost: Mark) -> int:
        """The first message stored later than the lost one; messages of the same time were read."""
        times = {queue: lost.store_ms + 1}
        return self._brokers.run(offsets_of_times(self._brokers, self._options, times, {queue: between}))[queue]

    def begin_anew(self, queue: MessageQueue) -> None:
        """Forget the marks of this queue: it begins anew."""
        self.remade.discard(queue)
        self.same.discard(queue)
        self.marks.pop(queue, None)

    def go_on(self, queue: MessageQueue) -> int:
        """The offset behind the messages that were read and are still there; only marks before it stay."""
        offset = self.cut.pop(queue)
        self.marks[queue] = tuple(mark for mark in self.marks[queue] if mark.offset < offset)
        return offset

    def note(self, start: Offsets, ends: Offsets, bounds: Mapping[MessageQueue, Bounds]) -> None:
        """Mark the last message before the end of each queue that moves, and earlier ones where too few are left."""
        early: dict[MessageQueue, Marks] = {}
        wanted: set[_Place] = set()
        for queue, end in ends.items():
            if end <= start.get(queue, end):
                continue
            low = bounds[queue].low if queue in bounds else 0
            kept = [mark for mark in self.marks.get(queue, ()) if mark.offset >= low]
            early[queue] = tuple(kept[:_EARLY_MARKS])
            wanted.add((queue, end - 1))
            if len(kept) < _EARLY_MARKS and low < end:
                wanted |= {(queue, low), (queue, (low + end) // 2)}
        found = self._look(wanted)
        for queue, kept_marks in early.items():
            new = {mark for (each, _offset), mark in found.items() if each == queue and mark is not None}
            if marks := tuple(sorted({*kept_marks, *new})):
                self.marks[queue] = marks

    def _look(self, places: Collection[_Place]) -> dict[_Place, Mark | None]:
        return self._brokers.run(
            of_each(
                self._brokers,
                self._options,
                places,
                lambda place: f"reading {describe(place[0])} at offset {place[1]}",
                lambda place: self._mark(*place),
            )
        )

    async def _mark(self, queue: MessageQueue, offset: int) -> Mark | None:
        pulled = await self._brokers.pull(queue, offset, 1, filtered=False)
        if pulled.outcome is not PullOutcome.FOUND:
            return None
        try:
            records = Records(pulled.data, record_starts(pulled.data))
        except READ_FAULTS:
            return None  # the reader of the queue tells about damaged messages
        if not len(records) or int(records.queue_offsets[0]) != offset:
            return None
        return Mark(offset, int(records.physical_offsets[0]), int(records.store_ms[0]))
