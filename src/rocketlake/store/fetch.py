"""Read one queue from an offset on: which messages one pull gets, and where the next one starts.

Owns        the status of a read, the limits of one answer, skipping what is gone or filtered out.
Must not know   sessions, subscriptions, how a filter decides.

Rules: docs/internals/store_layout.md, "Get" (Apache's DefaultMessageStore.getMessage).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from rocketlake.store.commit_log import CommitLog, is_record
from rocketlake.store.config import StoreConfig
from rocketlake.store.consume_queue.entry import ENTRY_SIZE, FILLER_SIZE
from rocketlake.store.consume_queue.queue import ConsumeQueue, Entry
from rocketlake.store.results import GetResult, GetStatus

__all__ = ["Fetch", "MatchRecord", "MatchTag"]

MatchTag = Callable[[int], bool]
MatchRecord = Callable[[memoryview], bool]

_BYTES_MAX = 128 * 1024 * 1024
_BYTES_MIN = 100
_ENTRIES_AT_ONCE = 64


class Fetch:
    """Reads queues of one store."""

    def __init__(self, log: CommitLog, config: StoreConfig) -> None:
        self._log = log
        self._config = config
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._memory_bytes = memory * config.memory_max_percent // 100

    def is_in_memory(self, physical_offset: int) -> bool:
        """True when a record is so recent that it is probably still in the page cache."""
        return self._log.max_offset - physical_offset <= self._memory_bytes

    def fetch(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_messages: int,
        max_bytes: int,
        match: MatchTag | None = None,
        match_record: MatchRecord | None = None,
    ) -> GetResult:
        """Messages from queue offset `offset` on; `match` sees the tag code, `match_record` the whole record."""
        low, high = queue.min_offset(self._log.min_offset), queue.max_offset
        status, next_offset = _out_of_range(offset, low, high)
        if status is not None:
            return GetResult(status, next_offset=next_offset, min_offset=low, max_offset=high)
        result = GetResult(GetStatus.NO_MATCHED_MESSAGE, next_offset=offset, min_offset=low, max_offset=high)
        limits = _Limits(max_messages, min(max(max_bytes, _BYTES_MIN), _BYTES_MAX))
        scan_end = min(offset + max(self._config.filter_bytes_max // ENTRY_SIZE, max_messages), high)
        while result.next_offset < scan_end:
            entries = queue.read(result.next_offset, min(_ENTRIES_AT_ONCE, scan_end - result.next_offset))
            if not entries or not self._collect(result, entries, limits, match, match_record):
                break
            if result.next_offset % queue.entries_per_file == 0:
                break  # one queue file per call
        if result.next_offset == offset:
            result.status, result.next_offset = GetStatus.OFFSET_FOUND_NULL, queue.next_file_offset(offset)
        return result

    def _collect(
        self,
        result: GetResult,
        entries: list[Entry],
        limits: _Limits,
        match: MatchTag | None,
        match_record: MatchRecord | None,
    ) -> bool:
        """Take the records of `entries` into `result`; False when it is full."""
        slices = result.slices
        for physical_offset, size, tag_code in entries:
            if slices and self._is_enough(result, size, physical_offset, limits):
                return False
            result.next_offset += 1
            if size == FILLER_SIZE or physical_offset < limits.gone_below:
                continue
            if match is not None and not match(tag_code):
                continue
            record = self._log.view(physical_offset, size)
            if record is None:
                limits.gone_below = self._log.next_file_start(physical_offset)
                if not slices:
                    result.status = GetStatus.MESSAGE_WAS_REMOVING
                continue
            if not is_record(record, physical_offset):
                continue  # damaged on disk: one bad record must not spoil the answer
            if match_record is not None and not match_record(record):
                continue
            slices.append(record)
            result.status = GetStatus.FOUND
            result.bytes += size
            result.count += 1
        return True

    def _is_enough(self, result: GetResult, size: int, physical_offset: int, limits: _Limits) -> bool:
        """Would one more message of `size` bytes be too much? (The first is always taken.)"""
        config = self._config
        count, size = result.count, result.bytes + size
        if count >= limits.messages or size > limits.bytes:
            return True
        if self.is_in_memory(physical_offset):
            return size > config.transfer_bytes_max_memory or count >= config.transfer_count_max_memory
        return size > config.transfer_bytes_max_disk or count >= config.transfer_count_max_disk


class _Limits:
    """What one answer may hold, and below which physical offset the log is known to be gone."""

    __slots__ = ("bytes", "gone_below", "messages")

    def __init__(self, messages: int, max_bytes: int) -> None:
        self.messages = messages
        self.bytes = max_bytes
        self.gone_below = 0


def _out_of_range(offset: int, low: int, high: int) -> tuple[GetStatus | None, int]:
    """The status of an offset at which nothing can be read, and where to go on; None if something can."""
    if high == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < low:
        return GetStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > high:
        return GetStatus.OFFSET_OVERFLOW_BADLY, high
    return None, offset
