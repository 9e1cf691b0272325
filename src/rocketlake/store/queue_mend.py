"""Entries of a consume queue that do not lead to their record are mended by the log, before a reader goes past them.

Owns        where in the log the record of a lost entry must lie, and how far is looked for it.
Must not know   readers, how an answer is made.

Records of a queue lie in the log in the order of their queue offsets. So the record of entry n lies behind that of the
last sound entry before n and before that of the first sound entry after it. This stretch is walked on the loop: damage
is rare, and the length is bounded. A record that is not found there waits for the next start (recovery.py).

An entry may lead to a record of its queue that says another queue offset. It is written anew only if the entry of that
offset leads to the record, too: a broker may have written a queue out of step with its records, and then no other entry
leads there. Such a record is handed out as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.commit_log import CommitLog
from rocketlake.store.consume_queue.queue import ConsumeQueue
from rocketlake.store.deletions import Deletions
from rocketlake.store.dispatch_scan import DispatchEntry, scan
from rocketlake.store.log_walk import LogWalk

__all__ = ["QueueMend"]

_WALK_BYTES_MAX = 64 * 1024 * 1024
_IN_VAIN_MAX = 100_000
_NEIGHBOURS_MAX = 64
"""Entries on either side of a lost one that are asked where their records lie."""


class QueueMend:
    """Mends queues of one store."""

    def __init__(self, log: CommitLog, deletions: Deletions, delays_ms: Sequence[int]) -> None:
        self._log = log
        self._deletions = deletions
        self._delays_ms = delays_ms
        self._in_vain: set[tuple[ConsumeQueue, QueueOffset]] = set()
        """(queue, queue offset) of entries that were looked for and not found: once is enough."""

    def mend(self, queue: ConsumeQueue, first: QueueOffset, end: QueueOffset, log_end: PhysicalOffset) -> int:
        """Write anew the lost entries of queue offsets [`first`, `end`); returns how many were found in the log.

        `log_end`: up to there the log is in the queues. Raises OSError.
        """
        lost = {
            offset
            for offset in map(QueueOffset, range(first, min(end, queue.max_offset)))
            if self._is_lost(queue, offset)
        }
        if not lost:
            return 0
        start, stop = self._stretch(queue, min(lost), max(lost), log_end)
        found: dict[QueueOffset, DispatchEntry] = {}
        for entry in self._records(queue, start, stop) if stop - start <= _WALK_BYTES_MAX else ():
            if entry.queue_offset in lost:
                found[entry.queue_offset] = entry  # the later one, if the topic was deleted and made again in between
        for entry in found.values():
            queue.replace(entry.queue_offset, entry.physical_offset, entry.size, entry.tag_code)
        if len(self._in_vain) > _IN_VAIN_MAX:
            self._in_vain.clear()
        self._in_vain.update((queue, offset) for offset in lost - found.keys())
        return len(found)

    def _is_lost(self, queue: ConsumeQueue, offset: QueueOffset) -> bool:
        if (queue, offset) in self._in_vain:
            return False
        record = self._record(queue, offset)
        if record is None:
            return True
        if record.queue_offset == offset:
            return False
        home = self._home(queue, record.queue_offset)
        return home is not None and home.physical_offset == record.physical_offset

    def _home(self, queue: ConsumeQueue, offset: QueueOffset) -> DispatchEntry | None:
        """The record an entry leads to, if that says it is number `offset` of this queue."""
        record = self._record(queue, offset)
        return record if record is not None and record.queue_offset == offset else None

    def _record(self, queue: ConsumeQueue, offset: QueueOffset) -> DispatchEntry | None:
        """The record of this queue that an entry leads to."""
        entry = queue.entry(offset)
        record = None if entry is None else self._log.record(entry[0])
        if entry is None or record is None or len(record) != entry[1]:
            return None
        found, _taken, _status = scan(record, entry[0], False, self._delays_ms)
        same = found and (found[0].topic, found[0].queue_id) == (queue.topic, queue.queue_id)
        return found[0] if same else None

    def _stretch(
        self, queue: ConsumeQueue, first: QueueOffset, last: QueueOffset, log_end: PhysicalOffset
    ) -> tuple[PhysicalOffset, PhysicalOffset]:
        """Physical offsets between which the records of entries `first` to `last` lie."""
        start, stop = self._log.min_offset, log_end
        for offset in map(QueueOffset, range(first - 1, max(-1, first - 1 - _NEIGHBOURS_MAX), -1)):
            if (before := self._home(queue, offset)) is not None:
                start = before.physical_offset + before.size
                break
        for offset in map(QueueOffset, range(last + 1, min(queue.max_offset, last + 1 + _NEIGHBOURS_MAX))):
            if (behind := self._home(queue, offset)) is not None:
                stop = behind.physical_offset
                break
        return start, stop

    def _records(self, queue: ConsumeQueue, start: PhysicalOffset, stop: PhysicalOffset) -> list[DispatchEntry]:
        """The records of the queue in a stretch of the log."""
        if start >= stop:
            return []
        walk = LogWalk(self._log, start, stop, False, self._delays_ms)
        found: list[DispatchEntry] = []
        for entries in walk.chunks():
            found += (entry for entry in entries if entry.physical_offset < stop and self._is_of(entry, queue))
            if entries[-1].physical_offset >= stop:
                break
        return found

    def _is_of(self, entry: DispatchEntry, queue: ConsumeQueue) -> bool:
        return (
            (entry.topic, entry.queue_id) == (queue.topic, queue.queue_id)
            and entry.is_queued()
            and not self._deletions.is_dead(entry.topic, entry.physical_offset, entry.queue_id)
        )
