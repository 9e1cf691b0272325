"""Warns of messages that are deleted before every group has read them.

Owns        the count of deleted messages that a group has not read, how often a warning is repeated.
Must not know   why files are deleted, how offsets are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rocketlake.base.callbacks import call
from rocketlake.base.clock import Clock
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.disk_wait import DiskWait, NotInMemory
from rocketlake.store.results import ColdPart

__all__ = ["UnreadDeletions"]

_log = get_logger(__name__)

_REPEAT_SECONDS = 60.0
_LINES_MAX = 20
"""Lines of one deletion; the other groups are counted."""
_LOADS_MAX = 40
"""So often a worker reads for one deletion: a search takes some steps. Queues that need more are left out."""

_Starts = dict[tuple[str, int], tuple[int, int]]
"""(topic, queue id) -> the queue's first offset after the deletion, and now."""


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

    def __init__(self, offsets: OffsetTable, queues: Queues, clock: Clock) -> None:
        self._offsets = offsets
        self._queues = queues
        self._unsaid: dict[tuple[str, str], int] = {}
        self._warnings = RareWarnings(_log, interval_seconds=_REPEAT_SECONDS, clock=clock)

    def look(self, log_start: PhysicalOffset, go_on: Callable[[], object]) -> None:
        """The log will start at this physical offset: count the messages that groups lose, then call `go_on`."""
        if not call(self._count, log_start, {}, 0, go_on):
            go_on()

    def _count(self, log_start: PhysicalOffset, starts: _Starts, loads: int, go_on: Callable[[], object]) -> None:
        """Count and go on, or have a worker bring what the search in the queues lacks, then do this again."""

        def loaded(error: Exception | None) -> None:
            if not call(self._count, log_start, starts, loads + 1 if error is None else _LOADS_MAX, go_on):
                go_on()

        cold = self._find_starts(log_start, starts)
        if cold and loads < _LOADS_MAX:
            self._queues.load(cold, loaded)
            return
        for group, topic, queues in self._offsets.all():
            count = sum(_lost(starts.get((topic, queue_id)), offset) for queue_id, offset in queues.items())
            if count:
                self._unsaid[group, topic] = self._unsaid.get((group, topic), 0) + count
        self._say(log_start)
        go_on()

    def _find_starts(self, log_start: PhysicalOffset, starts: _Starts) -> list[ColdPart]:
        """Add the queues in which a group has messages to read; the parts that must be read from disk for others."""
        cold: dict[ColdPart, None] = {}
        with self._queues.disk_wait.none():
            for _group, topic, queues in self._offsets.all():
                for queue_id, offset in queues.items():
                    key = topic, queue_id
                    if key in starts or offset >= self._queues.max_offset(topic, queue_id):
                        continue
                    try:
                        first = self._queues.min_offset(topic, queue_id)
                        starts[key] = self._queues.offset_at(topic, queue_id, log_start), first
                    except NotInMemory as needed:
                        cold |= dict.fromkeys(needed.parts)
                    except (OSError, StoreError) as error:
                        starts[key] = 0, 0
                        self._warnings.warn("queue", "queue %d of %s cannot be read: %s", queue_id, topic, error)
        return list(cold)

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


def _lost(start: tuple[int, int] | None, offset: int) -> int:
    """Messages of a queue that go, of those from `offset` on."""
    return 0 if start is None else max(0, start[0] - max(offset, start[1]))
