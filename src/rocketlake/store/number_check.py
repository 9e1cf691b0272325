"""Finds records in the log whose queue offset is damaged, by the records behind them in their queue.

Owns        the comparison of a record's number with its neighbours', how far the log is read for it.
Must not know   how queues are built, where a record with a damaged number goes.

The checksum of a record covers its body only. When a queue is built again, one wrong number would take the place of
others: those behind it would find their places taken, and a number 0 would look like a topic made anew, so that all
entries before it go. Numbers rise by one along a queue, so one that does not fit is compared with the next one.
"""

from __future__ import annotations

from rocketlake.base.logs import get_logger
from rocketlake.model.positions import QueueOffset
from rocketlake.store.commit_log import CommitLog
from rocketlake.store.consume_queue.table import ConsumeQueueTable
from rocketlake.store.deletions import Deletions
from rocketlake.store.dispatch_scan import DispatchEntry
from rocketlake.store.log_walk import LogWalk

__all__ = ["NumberCheck"]

_log = get_logger(__name__)

_WALK_BYTES_MAX = 256 * 1024 * 1024
"""Bytes of the log that one start reads for all its checks: damage is rare. After these, numbers are believed."""
_RECORD_BYTES_MIN = 91


class NumberCheck:
    """Looks behind records whose number does not follow that of the one before it."""

    def __init__(self, log: CommitLog, queues: ConsumeQueueTable, deletions: Deletions) -> None:
        self._log = log
        self._queues = queues
        self._deletions = deletions
        self._bytes_left = _WALK_BYTES_MAX

    def is_wrong(self, entry: DispatchEntry, expected: QueueOffset) -> bool:
        """True if its number is damaged. `expected`: the next number of its queue, 0 if the queue is not known."""
        if 0 < entry.queue_offset < expected:
            return False  # its place is taken: it is passed over anyway
        following = self._following(entry)
        if expected > 0:
            is_wrong = bool(following) and following[0].queue_offset == expected + 1
        else:
            given_out = self._queues.given_out(entry.topic, entry.queue_id)
            is_wrong = len(following) > 1 and _leads_nowhere(entry, following[0], following[1], given_out)
        if is_wrong:
            _log.error(
                "the record at %d of the log says that it is number %d of queue %d of %s, but the next is number %d:"
                " it is damaged and passed over",
                entry.physical_offset,
                entry.queue_offset,
                entry.queue_id,
                entry.topic,
                following[0].queue_offset,
            )
        return is_wrong

    def _following(self, entry: DispatchEntry) -> list[DispatchEntry]:
        """The next two records of its queue; fewer at the end of the log, and when enough was read."""
        start = entry.physical_offset + entry.size
        found: list[DispatchEntry] = []
        if self._bytes_left <= 0:
            return found
        for entries in LogWalk(self._log, start, start, False, ()).chunks():
            self._bytes_left -= entries[-1].physical_offset + entries[-1].size - entries[0].physical_offset
            found += (other for other in entries if self._is_next_to(other, entry))
            if len(found) > 1 or self._bytes_left <= 0:
                break
        return found[:2]

    def _is_next_to(self, other: DispatchEntry, entry: DispatchEntry) -> bool:
        return (
            (other.topic, other.queue_id) == (entry.topic, entry.queue_id)
            and other.is_queued()
            and not self._deletions.is_dead(other.topic, other.physical_offset, other.queue_id)
        )


def _leads_nowhere(first: DispatchEntry, second: DispatchEntry, third: DispatchEntry, given_out: QueueOffset) -> bool:
    """True if the second and the third follow each other and the first cannot lie before them in their queue.

    A power cut may have taken all records between them, of offsets below `given_out`.
    """
    if second.queue_offset == 0 or third.queue_offset != second.queue_offset + 1:
        return False
    missing = second.queue_offset - first.queue_offset - 1
    room = second.physical_offset - first.physical_offset - first.size
    return missing < 0 or (missing * _RECORD_BYTES_MIN > room and second.queue_offset > given_out)
