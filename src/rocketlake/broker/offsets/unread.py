"""Warns of messages that are deleted before every group has read them.

Owns        the count of deleted messages that a group has not read, how often a warning is repeated.
Must not know   why files are deleted, how offsets are kept.

The count is made in turns, some queues a step, so that tens of thousands of queues do not hold up the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Protocol

from rocketlake.base.callbacks import Step, raised
from rocketlake.base.clock import Clock
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.net.turns import Turns
from rocketlake.store.disk_wait import DiskWait, NotInMemory
from rocketlake.store.results import ColdPart

__all__ = ["UnreadDeletions"]

_log = get_logger(__name__)

_REPEAT_SECONDS = 60.0
_LINES_MAX = 20
"""Lines of one deletion; the other groups are counted."""
_SLICE = 128
"""Offsets looked at in one step, with one reading of what is cold."""
_LOADS_MAX = 40
"""So often a worker reads for one slice: a search takes some steps. Queues that need more are left out."""

_Starts = dict[tuple[str, int], tuple[int, int]]
"""(topic, queue id) -> the queue's first offset after the deletion, and now."""
_Place = tuple[str, str, int, int]
"""Group, topic, queue id, the group's offset."""
_Parts = dict[ColdPart, None]
_Steps = Generator[Step, None, None]


class Queues(Protocol):
    """The questions to the store."""

    @property
    def disk_wait(self) -> DiskWait: ...

    def load(self, cold: Sequence[ColdPart], done: Callable[[Exception | None], object]) -> None: ...

    def min_offset(self, topic: str, queue_id: int) -> QueueOffset: ...

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset: ...

    def offset_at(self, topic: str, queue_id: int, physical_offset: PhysicalOffset) -> QueueOffset: ...


class UnreadDeletions:
    """Called before each deletion. A group counts in the topics in which it has an offset."""

    def __init__(self, offsets: OffsetTable, queues: Queues, turns: Turns, clock: Clock) -> None:
        self._offsets = offsets
        self._queues = queues
        self._turns = turns
        self._clock = clock
        self._unsaid: dict[tuple[str, str], int] = {}
        self._warnings = RareWarnings(_log, interval_seconds=_REPEAT_SECONDS, clock=clock)

    def look(self, log_start: PhysicalOffset, go_on: Callable[[], object]) -> None:
        """The log will start at this physical offset: count the messages that groups lose, then call `go_on`."""
        self._work(self._count(log_start), go_on, self._clock.monotonic() + self._turns.seconds)

    def _work(self, count: _Steps, go_on: Callable[[], object], turn_end: float) -> None:
        """Count until this turn ends or bytes must be read. At the end, or when it fails, go on."""
        try:
            for wait in count:
                if wait is not None:
                    wait(lambda: self._work(count, go_on, self._clock.monotonic() + self._turns.seconds))
                    return
                if self._clock.monotonic() > turn_end:
                    self._turns.wait(partial(self._work, count, go_on))
                    return
        except Exception as error:
            raised(self._count, error)
        go_on()

    def _count(self, log_start: PhysicalOffset) -> _Steps:
        starts: _Starts = {}
        for places in _slices(list(self._offsets.all())):
            yield from self._find_starts(places, log_start, starts)
            for group, topic, queue_id, offset in places:
                if lost := _lost(starts.get((topic, queue_id)), offset):
                    self._unsaid[group, topic] = self._unsaid.get((group, topic), 0) + lost
            yield
        self._say(log_start)

    def _find_starts(self, places: list[_Place], log_start: PhysicalOffset, starts: _Starts) -> _Steps:
        """Add the queues in which a group has messages to read; wait while a worker reads what the search lacks."""
        left = {
            (topic, queue_id): None
            for _group, topic, queue_id, offset in places
            if (topic, queue_id) not in starts and offset < self._queues.max_offset(topic, queue_id)
        }
        failed: list[Exception] = []
        for _ in range(_LOADS_MAX):
            cold = self._search(left, log_start, starts)
            if not left or failed:
                return
            yield partial(self._load, list(cold), failed)

    def _search(self, left: dict[tuple[str, int], None], log_start: PhysicalOffset, starts: _Starts) -> _Parts:
        """Find queues and take them from `left`; the parts that must be read from disk for the others."""
        cold: _Parts = {}
        with self._queues.disk_wait.none():
            for topic, queue_id in list(left):
                try:
                    first = self._queues.min_offset(topic, queue_id)
                    starts[topic, queue_id] = self._queues.offset_at(topic, queue_id, log_start), first
                except NotInMemory as needed:
                    cold |= dict.fromkeys(needed.parts)
                    continue
                except (OSError, StoreError) as error:
                    starts[topic, queue_id] = 0, 0
                    self._warnings.warn("queue", "queue %d of %s cannot be read: %s", queue_id, topic, error)
                del left[topic, queue_id]
        return cold

    def _load(self, cold: list[ColdPart], failed: list[Exception], go_on: Callable[[], object]) -> None:
        def loaded(error: Exception | None) -> None:
            failed.extend([error] if error is not None else [])
            go_on()

        self._queues.load(cold, loaded)

    def _say(self, log_start: PhysicalOffset) -> None:
        most_first = sorted(self._unsaid.items(), key=lambda item: -item[1])
        for (group, topic), count in most_first[:_LINES_MAX]:
            said = self._warnings.warn(
                f"{topic}@{group}",
                "group %s has not read %d messages of topic %s that are deleted now with the oldest log files"
                " (fileReservedTime, or the disk is full); the log starts at %d then",
                group,
                count,
                topic,
                log_start,
            )
            if said:
                del self._unsaid[group, topic]
        rest = most_first[_LINES_MAX:]
        if rest and self._warnings.warn(
            "rest",
            "%d more pairs of group and topic lose %d unread messages with the oldest log files",
            len(rest),
            sum(count for _, count in rest),
        ):
            for key, _ in rest:
                del self._unsaid[key]


def _slices(lines: list[tuple[str, str, dict[int, int]]]) -> Iterator[list[_Place]]:
    """All offsets of the lines, some at a time; a line is read when its slice begins."""
    places: list[_Place] = []
    for group, topic, queues in lines:
        for queue_id, offset in list(queues.items()):
            places.append((group, topic, queue_id, offset))
            if len(places) == _SLICE:
                yield places
                places = []
    yield places


def _lost(start: tuple[int, int] | None, offset: int) -> int:
    """Messages of a queue that go, of those from `offset` on."""
    return 0 if start is None else max(0, start[0] - max(offset, start[1]))
