"""Warns of messages that are deleted before every group has read them.

Owns        the count of deleted messages that a group has not read, how often a warning is repeated.
Must not know   why files are deleted, how offsets are kept.
"""

from __future__ import annotations

from typing import Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.model.positions import PhysicalOffset, QueueOffset

__all__ = ["UnreadDeletions"]

_log = get_logger(__name__)

_REPEAT_SECONDS = 60.0
_LINES_MAX = 20
"""Lines of one deletion; the other groups are counted."""


class Queues(Protocol):
    """The questions to the store."""

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

    def look(self, log_begin: PhysicalOffset) -> None:
        """The log will start at this physical offset: count the messages that groups lose."""
        begins: dict[tuple[str, int], int] = {}
        for group, topic, queues in self._offsets.all():
            count = sum(self._lost(topic, queue_id, offset, log_begin, begins) for queue_id, offset in queues.items())
            if count:
                self._unsaid[group, topic] = self._unsaid.get((group, topic), 0) + count
        self._say(log_begin)

    def _lost(
        self, topic: str, queue_id: int, offset: int, log_begin: PhysicalOffset, begins: dict[tuple[str, int], int]
    ) -> int:
        if offset >= self._queues.max_offset(topic, queue_id):
            return 0
        key = topic, queue_id
        begin = begins.get(key)
        if begin is None:
            begin = begins[key] = self._queues.offset_at(topic, queue_id, log_begin)
        return max(0, begin - max(offset, self._queues.min_offset(topic, queue_id)))

    def _say(self, log_begin: PhysicalOffset) -> None:
        most_first = sorted(self._unsaid.items(), key=lambda item: -item[1])
        for (group, topic), count in most_first[:_LINES_MAX]:
            said = self._warnings.warn(
                f"{topic}@{group}",
                "group %s has not read %d messages of topic %s that are deleted now with the oldest log files"
                " (fileReservedTime, or the disk is full); the log starts at %d then",
                group,
                count,
                topic,
                log_begin,
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
