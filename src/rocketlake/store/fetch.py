"""Read one queue from an offset on: which messages one pull gets, and where the next one starts.

Owns        the status of a read, the limits of one answer, skipping records that are gone or filtered out.
Must not know   sessions, subscriptions, how a filter decides.

Rules: docs/internals/store_layout.md, "Get" (Apache's DefaultMessageStore.getMessage).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.commit_log import CommitLog
from rocketlake.store.config import StoreConfig
from rocketlake.store.consume_queue.entry import ENTRY_SIZE, FILLER_SIZE, unpack_entries
from rocketlake.store.consume_queue.queue import ConsumeQueue
from rocketlake.store.deletions import Deletions
from rocketlake.store.disk_wait import DiskWait, NotInMemory
from rocketlake.store.mapped_file import Bytes, LogFile
from rocketlake.store.residency import BLOCK_BITS, Residency
from rocketlake.store.results import ColdPart, GetResult, GetStatus
from rocketlake.store.selection import Selection

__all__ = ["Fetch", "MatchRecord", "MatchTag"]

MatchTag = Callable[[int], bool]
MatchRecord = Callable[[memoryview], bool | None]
"""The bytes of a record -> true if it is wanted. None ends the read, and is never the answer for its first record."""

_BYTES_MAX = 128 * 1024 * 1024
_BYTES_MIN = 100
_ENTRIES_AT_ONCE = 64


class Fetch:
    """Reads queues of one store."""

    def __init__(
        self,
        log: CommitLog,
        config: StoreConfig,
        residency: Residency,
        deletions: Deletions,
        wait: DiskWait | None = None,
    ) -> None:
        self.wait = wait or DiskWait()
        self._log = log
        self._deletions = deletions
        self._residency = residency
        self.mend: Callable[[ConsumeQueue, QueueOffset, QueueOffset, bool], bool] = _nobody_mends
        """(queue, first, end, is_odd): called when entries of [first, end) lead to no record of the queue, or (`is_odd`
        False) only to records of another number. True if an entry was mended: it leads to its own record now."""
        self._is_mended = False
        self._mapped: LogFile | None = None
        """The file that the last record came from; most often the next one does, too."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._memory_bytes = memory * config.memory_max_percent // 100
        self._recent = config.transfer_count_max_memory, config.transfer_bytes_max_memory
        self._old = config.transfer_count_max_disk, config.transfer_bytes_max_disk
        self._scan_min = config.filter_bytes_max // ENTRY_SIZE

    def is_in_memory(self, physical_offset: PhysicalOffset) -> bool:
        """True when a record is so recent that it is probably still in the page cache."""
        return self._log.max_offset - physical_offset <= self._memory_bytes

    # -- for plain_fetch.pyx -------------------------------------------------------------------------------------------

    @property
    def limits(self) -> tuple[int, int, tuple[int, int], tuple[int, int]]:
        """Bytes of the log that count as recent, entries to look at, (messages, bytes) of an answer: recent, old."""
        return self._memory_bytes, self._scan_min, self._recent, self._old

    @property
    def log_range(self) -> tuple[PhysicalOffset, PhysicalOffset]:
        """Where the log starts, and where its readable bytes end."""
        files = self._log.list
        return files.min_offset, files.max_offset

    def begin_of(self, queue: ConsumeQueue) -> PhysicalOffset:
        """No record of the queue lies before this physical offset: those of a topic of its name that was deleted do."""
        return self._deletions.begin_of(queue.topic, queue.queue_id)

    def window(
        self, offset: PhysicalOffset, size: int
    ) -> tuple[memoryview, PhysicalOffset, PhysicalOffset, bytearray] | None:
        """The file around a record that can be looked at now; None if there is no such record in memory.

        Its bytes, its first offset, the end of its readable bytes, its sure blocks (residency.py).
        """
        mapped = self._find(offset, size)
        sure = None if mapped is None else self._residency.sure_blocks(mapped, offset - mapped.start, size)
        if mapped is None or sure is None:
            return None
        return mapped.view, mapped.start, mapped.start + mapped.readable, sure

    # -- reading -------------------------------------------------------------------------------------------------------

    def fetch(
        self,
        queue: ConsumeQueue,
        offset: QueueOffset,
        max_messages: int,
        max_bytes: int,
        match: MatchTag | None = None,
        match_record: MatchRecord | None = None,
        *,
        wait: bool = True,
    ) -> GetResult:
        """Messages from queue offset `offset` on; `match` sees the tag code, `match_record` the whole record.

        `wait` False: where the disk would have to be waited for the answer ends, or is NOT_IN_MEMORY if it is empty.
        """
        if wait:
            return self._fetch(queue, offset, max_messages, max_bytes, match, match_record, wait=True)
        before, self.wait.is_allowed = self.wait.is_allowed, False
        try:
            return self._fetch(queue, offset, max_messages, max_bytes, match, match_record, wait=False)
        except NotInMemory as needed:
            return GetResult(
                GetStatus.NOT_IN_MEMORY, next_offset=offset, max_offset=queue.max_offset, cold=list(needed.parts)
            )
        finally:
            self.wait.is_allowed = before

    def _fetch(
        self,
        queue: ConsumeQueue,
        offset: QueueOffset,
        max_messages: int,
        max_bytes: int,
        match: MatchTag | None,
        match_record: MatchRecord | None,
        *,
        wait: bool,
    ) -> GetResult:
        low, high = queue.min_offset(self._log.min_offset), queue.max_offset
        status, next_offset = _out_of_range(offset, low, high)
        if status is not None:
            return GetResult(status, next_offset=next_offset, min_offset=low, max_offset=high)
        selection = self._selection(queue, max_messages, max_bytes)
        if (mapped := self._mapped) is not None and not mapped.closed:
            self._show(selection, mapped, None if wait else self._residency.blocks(mapped))
        position = offset
        scan_end = min(offset + max(self._scan_min, max_messages), high)
        cold: list[ColdPart] | None = None
        while position < scan_end and not selection.is_full:
            count = min(_ENTRIES_AT_ONCE, scan_end - position)
            entries = queue.packed(position, count) if wait else queue.packed_now(position, count)
            if entries is None:
                cold = [queue.cold_part(position)]
                break
            if not entries:
                break
            taken, cold = self._collect(selection, entries, position, match, match_record, wait)
            position += taken
            if cold is not None or position % queue.entries_per_file == 0:
                break  # one queue file per call
        selection.end_piece()
        is_sound = selection.odd == 0 and selection.misnumbered == 0
        if not is_sound and not self._is_mended and self.mend(queue, offset, position, selection.odd > 0):
            self._is_mended = True  # once: entries that are odd after that are passed by
            try:
                return self._fetch(queue, offset, max_messages, max_bytes, match, match_record, wait=wait)
            finally:
                self._is_mended = False
        if selection.count:
            status = GetStatus.FOUND
        elif cold:
            status = GetStatus.NOT_IN_MEMORY
        elif position == offset:
            status, position = GetStatus.OFFSET_FOUND_NULL, queue.next_file_offset(offset)
        elif selection.gone_below:
            status = GetStatus.MESSAGE_WAS_REMOVING
        else:
            status = GetStatus.NO_MATCHED_MESSAGE
        return GetResult(status, selection.pieces, position, low, high, selection.bytes, selection.count, cold or [])

    def _selection(self, queue: ConsumeQueue, max_messages: int, max_bytes: int) -> Selection:
        if not _BYTES_MIN <= max_bytes <= _BYTES_MAX:
            max_bytes = _BYTES_MIN if max_bytes < _BYTES_MIN else _BYTES_MAX
        recent_count, recent_bytes = self._recent
        old_count, old_bytes = self._old
        recent_from = self._log.max_offset - self._memory_bytes
        limits = recent_from, max_messages, max_bytes, recent_count, recent_bytes, old_count, old_bytes
        return Selection(*limits, queue.topic_name, queue.queue_id, self.begin_of(queue))

    def _collect(
        self,
        selection: Selection,
        entries: Bytes,
        first: QueueOffset,
        match: MatchTag | None,
        match_record: MatchRecord | None,
        wait: bool,
    ) -> tuple[int, list[ColdPart] | None]:
        """Take the records of `entries` into the selection; how many entries are done, and the parts to read first.

        `first`: the queue offset of the first entry.
        A list: it came to records that must be read from disk first (named only if there is nothing to answer yet).
        """
        done = 0
        while True:
            done = selection.take(entries, first, done, match, match_record)
            if not selection.is_outside:
                return done, None
            offset, size = selection.wanted_offset, selection.wanted_size
            mapped = self._find(offset, size)
            if mapped is None and offset < self._log.min_offset:
                selection.gone_below = self._log.next_file_start(offset)
                selection.odd += 1  # the queue starts behind the expired records, so this entry is damaged
                continue
            if mapped is None:
                selection.odd += 1  # nothing lies there, nor did ever
                done += 1
                continue
            sure = None if wait else self._residency.sure_blocks(mapped, offset - mapped.start, size)
            if sure is None and not wait:
                if selection.count:
                    return done, []
                # Named also if it has come into memory by now, as the kernel reads ahead: without a part to load this
                # would look like a queue without entries here, and the reader be sent on to its next file.
                cold = self._cold_parts(entries, done, match)
                return done, cold or [self._residency.cold_part(mapped, offset - mapped.start, size)]
            self._show(selection, mapped, sure)

    def _show(self, selection: Selection, mapped: LogFile, sure: bytearray | None) -> None:
        self._mapped = mapped
        selection.show(mapped.view, mapped.start, mapped.start + mapped.readable, sure)

    def _find(self, offset: PhysicalOffset, size: int) -> LogFile | None:
        """The file of a record, None if it is gone or not there yet."""
        mapped = self._log.list.find(offset)
        return None if mapped is None or offset + size > mapped.start + mapped.readable else mapped

    def _cold_parts(self, entries: Bytes, done: int, match: MatchTag | None) -> list[ColdPart]:
        """All that must be read from disk for the entries from number `done` on that one answer may hold."""
        count_max, bytes_max = self._recent
        parts: dict[ColdPart, None] = {}
        last: tuple[int, int, int] | None = None  # the blocks of the record before: most often those of the next one
        count = size_of_all = 0
        for offset, size, tag_code in unpack_entries(entries)[done:]:
            mapped = self._find(offset, size)
            if mapped is None or size == FILLER_SIZE or (match is not None and not match(tag_code)):
                continue
            count += 1
            size_of_all += size
            if count > count_max or (parts and size_of_all > bytes_max):
                break
            position = offset - mapped.start
            blocks = mapped.start, position >> BLOCK_BITS, position + size - 1 >> BLOCK_BITS
            if blocks == last:
                continue
            last = blocks
            part = self._residency.cold_part(mapped, position, size)
            if part not in parts and self._residency.sure_blocks(mapped, position, size) is None:
                parts[part] = None
        return list(parts)


def _out_of_range(offset: QueueOffset, low: QueueOffset, high: QueueOffset) -> tuple[GetStatus | None, QueueOffset]:
    """The status of an offset at which nothing can be read, and where to go on; None if something can."""
    if high == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, high
    if offset < low:
        return GetStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > high:
        return GetStatus.OFFSET_OVERFLOW_BADLY, high
    return None, offset


def _nobody_mends(_queue: ConsumeQueue, _first: QueueOffset, _end: QueueOffset, _is_odd: bool) -> bool:
    """Until the store is there."""
    return False
