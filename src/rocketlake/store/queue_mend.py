"""Entries of a consume queue that do not lead to their record are mended by the log, before a reader goes past them.

Owns        where in the log the record of a lost entry must lie, and how far is looked for it.
Must not know   readers, how an answer is made.

Records of a queue lie in the log in the order of their queue offsets. So the record of entry n lies behind that of the
last sound entry before n and before that of the first sound entry after it. This stretch is walked; its length is
bounded. A record that is not found there waits for the next start (recovery.py).

A reader that must not wait for the disk has the stretch walked a megabyte at a time: after each piece it gets
`NotInMemory` with the next piece, and the walk goes on where it was when that reader comes again.

An entry may lead to a record of its queue that says another queue offset. It is written anew only if the entry of that
offset leads to the record, too: a broker may have written a queue out of step with its records, and then no other entry
leads there. Such a record is handed out as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.commit_log import CommitLog
from rocketlake.store.consume_queue.queue import ConsumeQueue
from rocketlake.store.deletions import Deletions
from rocketlake.store.disk_wait import DiskWait, NotInMemory
from rocketlake.store.dispatch_scan import DispatchEntry, scan
from rocketlake.store.late_files import FileLate
from rocketlake.store.log_walk import LogWalk
from rocketlake.store.residency import BATCH_BYTES, Residency

__all__ = ["QueueMend"]

_WALK_BYTES_MAX = 64 * 1024 * 1024
_IN_VAIN_MAX = 100_000
_NEIGHBOURS_MAX = 64
"""Entries on either side of a lost one that are asked where their records lie."""
_WALKS_MAX = 1000


@dataclass(slots=True)
class _Walk:
    """A stretch of the log that is walked in pieces."""

    position: PhysicalOffset
    stop: PhysicalOffset
    last: QueueOffset
    """The records of entries up to this queue offset lie before `stop`."""
    found: dict[QueueOffset, DispatchEntry] = field(default_factory=dict)


class QueueMend:
    """Mends queues of one store."""

    def __init__(
        self,
        log: CommitLog,
        deletions: Deletions,
        delays_ms: Sequence[int],
        residency: Residency,
        wait: DiskWait,
    ) -> None:
        self._log = log
        self._deletions = deletions
        self._delays_ms = delays_ms
        self._residency = residency
        self._wait = wait
        self._in_vain: set[tuple[ConsumeQueue, QueueOffset]] = set()
        """(queue, queue offset) of entries that were looked for and not found: once is enough."""
        self._walks: dict[tuple[ConsumeQueue, QueueOffset], _Walk] = {}
        """Walks that wait for their next piece, by queue and first lost entry."""

    def mend(self, queue: ConsumeQueue, first: QueueOffset, end: QueueOffset, log_end: PhysicalOffset) -> int:
        """Write anew the lost entries of queue offsets [`first`, `end`); returns how many were found in the log.

        `log_end`: up to there the log is in the queues. Raises OSError; NotInMemory where the reader must not wait.
        """
        lost = {
            offset
            for offset in map(QueueOffset, range(first, min(end, queue.max_offset)))
            if self._is_lost(queue, offset)
        }
        if not lost:
            return 0
        found = self._found(queue, lost, log_end)
        for entry in found.values():
            self._replace(queue, entry)
        self._walks.pop((queue, min(lost)), None)
        if len(self._in_vain) > _IN_VAIN_MAX:
            self._in_vain.clear()
        self._in_vain.update((queue, offset) for offset in lost - found.keys())
        return len(found)

    def log_was_cut(self) -> None:
        """What the walks have found may be gone."""
        self._walks.clear()

    def _found(
        self, queue: ConsumeQueue, lost: set[QueueOffset], log_end: PhysicalOffset
    ) -> dict[QueueOffset, DispatchEntry]:
        """The records of lost entries, as far as the log has them. Raises NotInMemory."""
        walk = self._walks.get((queue, min(lost)))
        if walk is None or walk.last < max(lost):  # a reader that asked for less began it
            walk = _Walk(*self._stretch(queue, min(lost), max(lost), log_end), max(lost))
            if walk.stop - walk.position > _WALK_BYTES_MAX:
                return {}
            if len(self._walks) >= _WALKS_MAX:
                self._walks.clear()
            self._walks[queue, min(lost)] = walk
        self._walk_on(queue, walk)
        # The later one of two, if the topic was deleted and made again in between.
        return {offset: entry for offset, entry in walk.found.items() if offset in lost}

    def _replace(self, queue: ConsumeQueue, entry: DispatchEntry) -> None:
        try:
            queue.replace(entry.queue_offset, entry.physical_offset, entry.size, entry.tag_code)
        except FileLate:
            raise NotInMemory([queue.cold_part(entry.queue_offset)]) from None

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
        if self._deletions.is_dead(queue.topic, entry[0], queue.queue_id):
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

    def _walk_on(self, queue: ConsumeQueue, walk: _Walk) -> None:
        """Walk to the end of the stretch; one piece of it if the reader must not wait, then raise NotInMemory."""
        if walk.position >= walk.stop:
            return
        records = LogWalk(self._log, walk.position, walk.stop, False, self._delays_ms)
        for entries in records.chunks():
            walk.found.update((entry.queue_offset, entry) for entry in entries if self._is_of(entry, queue, walk))
            walk.position = PhysicalOffset(entries[-1].physical_offset + entries[-1].size)
            if walk.position >= walk.stop:
                return
            self._rest(walk)
        walk.position = walk.stop

    def _rest(self, walk: _Walk) -> None:
        """Between two pieces: the reader that must not wait comes again when a worker has read the next one."""
        mapped = None if self._wait.is_allowed else self._log.list.find(walk.position)
        if mapped is not None and (left := mapped.start + mapped.readable - walk.position) > 0:
            position = walk.position - mapped.start
            raise NotInMemory([self._residency.cold_part(mapped, position, min(BATCH_BYTES, left))])

    def _is_of(self, entry: DispatchEntry, queue: ConsumeQueue, walk: _Walk) -> bool:
        return (
            entry.physical_offset < walk.stop
            and (entry.topic, entry.queue_id) == (queue.topic, queue.queue_id)
            and entry.is_queued()
            and not self._deletions.is_dead(entry.topic, entry.physical_offset, entry.queue_id)
        )
