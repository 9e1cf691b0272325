"""Reads of a store: by queue, by position, by key, by time.

Owns        the questions of readers, and which part answers each.
Must not know   how messages come in, when they are safe, consumer groups, subscriptions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from rocketlake.base.clock import Millis
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.consume_queue.entry import unpack_entries
from rocketlake.store.consume_queue.queue import ConsumeQueue, Entry
from rocketlake.store.consume_queue.seek import offset_by_time, store_ms_at
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.dispatch_scan import scan
from rocketlake.store.fetch import MatchRecord, MatchTag
from rocketlake.store.mapped_file import Bytes, LogFile
from rocketlake.store.parts import StoreParts
from rocketlake.store.queue_mend import QueueMend
from rocketlake.store.results import ColdPart, GetResult, GetStatus, QueryResult

__all__ = ["LogPart", "StoreReads"]

T = TypeVar("T")
_log = get_logger(__name__)
_FIRST = QueueOffset(0)


class LogPart(NamedTuple):
    """A part of one file of the log."""

    start: PhysicalOffset
    view: memoryview
    file_end: PhysicalOffset
    """Where the next file begins."""


class StoreReads:
    """The half of a MessageStore that readers use."""

    def __init__(self, parts: StoreParts) -> None:
        self.config = parts.config
        self.log = parts.log
        self.queues = parts.queues
        self.index = parts.index
        self.deletions = parts.deletions
        self.dispatch = parts.dispatch
        self.residency = parts.residency
        self.fetch = parts.fetch
        self.fetch.mend = self._mend
        self._queue_mend = QueueMend(parts.log, parts.deletions, parts.delays_ms, parts.residency, parts.disk_wait)
        self.disk_wait = parts.disk_wait
        """The permission to wait for the disk, one for all reads of this store (disk_wait.py)."""
        self.log.before_look = self._check_in_memory
        self._ends = parts.ends
        self._late = parts.late
        self._durability = parts.durability
        self._odd = RareWarnings(_log, interval_seconds=60, clock=parts.clock)

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: QueueOffset,
        max_messages: int,
        max_bytes: int,
        match: MatchTag | None = None,
        match_record: MatchRecord | None = None,
        *,
        wait: bool = True,
    ) -> GetResult:
        """Messages of a queue from a queue offset on; `match` sees the tag code, `match_record` the whole record.

        `wait` False: the disk is not waited for; NOT_IN_MEMORY says that `cold` must be given to `load` first.
        """
        queue = self.queues.find(topic, queue_id)
        end, given_out = (_FIRST, _FIRST) if queue is None else (queue.max_offset, queue.next_offset)
        if offset > end and (self._late.are_open or offset <= given_out):
            # The queue's end is not known yet, or lies behind messages that nobody may read before they are confirmed
            # again (unconfirmed.py): a consumer that is sent back would read its last messages twice.
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, next_offset=offset, max_offset=end)
        if queue is None:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE)
        return self.fetch.fetch(queue, offset, max_messages, max_bytes, match, match_record, wait=wait)

    def _mend(self, queue: ConsumeQueue, first: QueueOffset, end: QueueOffset, is_odd: bool) -> bool:
        """Entries of a queue do not lead to their records: the queue is damaged, or those records are."""
        found = self._queue_mend.mend(queue, first, end, self.dispatch.position)
        what = "they are passed by, the next start looks for them" if is_odd else "they are handed out as they are"
        if is_odd and not found:
            self._ends.suspect(queue.topic, queue.queue_id)
        self._odd.warn(
            f"odd {queue.queue_id} {queue.topic}",
            "queue %d of %s: entries from offset %d on lead to %s; %s",
            queue.queue_id,
            queue.topic,
            first,
            "no record of this queue" if is_odd else "records that say another queue offset",
            f"{found} were found in the log again" if found else what,
        )
        return found > 0

    def _check_in_memory(self, mapped: LogFile, position: int, size: int) -> None:
        """Raise NotInMemory for bytes of the log that the disk would have to be waited for, where that is forbidden."""
        if not self.disk_wait.is_allowed and self.residency.sure_blocks(mapped, position, size) is None:
            raise NotInMemory([self.residency.cold_part(mapped, position, size)])

    async def read(self, read: Callable[[], T]) -> T:
        """What `read` gives, for a task: a worker brings what is not in memory, and `read` runs again from its start.

        Raises OSError.
        """
        while True:
            try:
                with self.disk_wait.none():
                    return read()
            except NotInMemory as needed:
                cold = needed.parts
            await self._bring(cold)

    async def _bring(self, cold: Sequence[ColdPart]) -> None:
        brought: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: Exception | None) -> None:
            if not brought.done():
                brought.set_result(None) if error is None else brought.set_exception(error)

        self.load(cold, done)
        await brought

    def load(self, cold: Sequence[ColdPart], done: Callable[[Exception | None], object]) -> None:
        """Read parts of the store into memory on a worker; `done` runs on the loop, with the error if there was one."""
        self.residency.load(cold, done)

    def queue_entries(self, topic: str, queue_id: int, offset: QueueOffset, max_count: int) -> list[Entry]:
        """Entries of a queue from a queue offset on, as (physical offset, size, tag code); all of one file."""
        return unpack_entries(self.packed_entries(topic, queue_id, offset, max_count))

    def packed_entries(self, topic: str, queue_id: int, offset: QueueOffset, max_count: int) -> Bytes:
        """The same, as packed bytes."""
        queue = self.queues.find(topic, queue_id)
        return b"" if queue is None else queue.packed(offset, max_count)

    def min_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """First queue offset that can be read; 0 for an unknown queue."""
        queue = self.queues.find(topic, queue_id)
        return _FIRST if queue is None else queue.min_offset(self.log.min_offset)

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """Queue offset behind the last message that can be read; 0 for an unknown queue."""
        queue = self.queues.find(topic, queue_id)
        return _FIRST if queue is None else queue.max_offset

    def next_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """Queue offset behind the last message, also one that cannot be read yet; 0 for an unknown queue."""
        queue = self.queues.find(topic, queue_id)
        return _FIRST if queue is None else queue.next_offset

    def offset_at(self, topic: str, queue_id: int, physical_offset: PhysicalOffset) -> QueueOffset:
        """First queue offset whose message lies at or behind a physical offset; 0 for an unknown queue."""
        queue = self.queues.find(topic, queue_id)
        return _FIRST if queue is None else queue.offset_at(physical_offset)

    def offset_by_time(self, topic: str, queue_id: int, ms: Millis, upper: bool = False) -> QueueOffset:
        """First queue offset stored at `ms` or later, with `upper` the last stored at `ms` or earlier."""
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            return _FIRST
        return offset_by_time(queue, ms, self.log.store_ms_at, min_physical=self.log.min_offset, upper=upper)

    def earliest_store_ms(self, topic: str, queue_id: int) -> Millis:
        """Store time of the first message that can be read, -1 without one."""
        return self.store_ms_at(topic, queue_id, self.min_offset(topic, queue_id))

    def store_ms_at(self, topic: str, queue_id: int, offset: QueueOffset) -> Millis:
        """Store time of the message at a queue offset, -1 when there is none."""
        queue = self.queues.find(topic, queue_id)
        return Millis(-1) if queue is None else store_ms_at(queue, offset, self.log.store_ms_at)

    def is_in_memory(self, topic: str, queue_id: int, offset: QueueOffset) -> bool:
        """True when the message at a queue offset is probably still in the page cache."""
        queue = self.queues.find(topic, queue_id)
        entry = None if queue is None else queue.entry(offset)
        return entry is not None and self.fetch.is_in_memory(entry[0])

    def read_record(self, physical_offset: PhysicalOffset) -> memoryview | None:
        """The whole record that starts at `physical_offset`, or None. Consumers may not be allowed to see it yet."""
        return self.log.record(physical_offset)

    def readable_record(self, physical_offset: PhysicalOffset) -> memoryview | None:
        """The same for consumers: None, too, for one that a change of the master may take back."""
        record = self.log.record(physical_offset)
        is_readable = record is not None and physical_offset + len(record) <= self._durability.readable_end
        return record if is_readable else None

    def log_views(self, offset: PhysicalOffset) -> Iterator[tuple[PhysicalOffset, memoryview]]:
        """(physical offset, readable bytes) of the log from `offset` on, file by file."""
        for mapped in self.log.list.files:
            start = max(offset, mapped.start)
            view = mapped.read(start - mapped.start, mapped.start + mapped.readable - start)
            if view is not None and view:
                yield start, view

    def log_part(self, offset: PhysicalOffset, size: int) -> LogPart | None:
        """Bytes of one file, from `offset` or the first file on; None at the end of the log. Raises NotInMemory."""
        for mapped in self.log.list.files:
            start = max(offset, mapped.start)
            length = min(size, mapped.start + mapped.readable - start)
            if length > 0:
                self._check_in_memory(mapped, start - mapped.start, length)
                view = mapped.read(start - mapped.start, length)
                return None if view is None else LogPart(start, view, mapped.end)
        return None

    def appended_views(self, offset: PhysicalOffset) -> Iterator[tuple[PhysicalOffset, memoryview]]:
        """The same of all appended bytes, also of those in write buffers, which cannot be read yet."""
        for mapped in self.log.list.files:
            start = max(offset, mapped.start)
            if view := mapped.appended(start - mapped.start):
                yield start, view

    def query(
        self, topic: str, key: str, max_count: int, begin_ms: Millis, end_ms: Millis, *, unique: bool = False
    ) -> QueryResult:
        """Messages with a key (`unique`: with this unique key), oldest first; up to `maxMsgsNumBatch`."""
        result = QueryResult(index_last_ms=self.index.last_ms, index_last_offset=self.index.last_physical_offset)
        wanted = f"{topic}#{key}"
        count = min(max_count, self.config.query_count_max)
        cold: list[ColdPart] = []
        for offset in sorted(self.index.find(wanted, count, begin_ms, end_ms)):
            try:
                record = self.log.record(offset)
            except NotInMemory as needed:
                cold += needed.parts
                continue
            if record is not None and not cold and self._has_key(record, offset, wanted, unique):
                result.slices.append(record)
        if cold:
            raise NotInMemory(list(dict.fromkeys(cold)))  # all at once
        return result

    def _has_key(self, record: memoryview, offset: PhysicalOffset, wanted: str, unique: bool) -> bool:
        """True if the record that the key index found has this key, and its topic was not deleted since.

        The index knows hashes only, so other keys may be among its hits.
        """
        entries, _taken, _status = scan(record, offset, False, ())
        if not entries or self.deletions.is_dead(entries[0].topic, offset, entries[0].queue_id):
            return False
        entry = entries[0]
        return wanted in (entry.index_keys()[:1] if unique and entry.unique_key else entry.index_keys())
