"""Records that were appended together as another store wrote them: queues take them queue by queue.

Owns        which of them belong together: those of one queue, in a row.
Must not know   who appended them; queues, index and dispatch, which take runs of sends in the same form
            (codec/record_run.pyx).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from rocketlake.base.clock import Millis
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.consume_queue.entry import pack_entry
from rocketlake.store.dispatch_scan import DispatchEntry
from rocketlake.store.key_index.layout import key_hash

__all__ = ["EntryRun"]


class EntryRun:
    """One or more records, back to back."""

    __slots__ = ("_entries", "_queues", "_rows", "physical_offset", "size", "store_ms")

    def __init__(self, entries: Sequence[DispatchEntry]) -> None:
        last = entries[-1]
        self.physical_offset = entries[0].physical_offset
        self.size = last.physical_offset + last.size - self.physical_offset
        self.store_ms = last.store_ms
        self._entries = entries
        self._queues: list[Any] = []
        self._rows: list[list[DispatchEntry]] = []
        """Records of one queue whose queue offsets follow each other."""
        newest: dict[tuple[str, int], list[DispatchEntry]] = {}
        for entry in entries:
            if not entry.is_queued():
                continue
            row = newest.get((entry.topic, entry.queue_id))
            if row is not None and row[-1].queue_offset + 1 == entry.queue_offset:
                row.append(entry)
            else:
                newest[entry.topic, entry.queue_id] = row = [entry]
                self._rows.append(row)

    def __len__(self) -> int:
        return len(self._entries)

    def find_queues(self, find: Callable[[str, int], Any]) -> None:
        """Find the queue of each row, and have it give out none of these queue offsets itself."""
        self._queues = [find(row[0].topic, row[0].queue_id) for row in self._rows]
        for queue, row in zip(self._queues, self._rows, strict=True):
            if queue is not None:
                queue.next_offset = max(queue.next_offset, row[-1].queue_offset + 1)

    def entries(self) -> list[tuple[Any, QueueOffset, bytes, PhysicalOffset]]:
        """(consume queue, first queue offset, entries, end of the last record) of each row."""
        return [
            (
                queue,
                row[0].queue_offset,
                b"".join([pack_entry(entry.physical_offset, entry.size, entry.tag_code) for entry in row]),
                row[-1].physical_offset + row[-1].size,
            )
            for queue, row in zip(self._queues, self._rows, strict=True)
        ]

    def key_stretches(self) -> list[tuple[array[int], Millis]]:
        """(hash, physical offset, hash, ..., store time) for the records of each time, in the order of the log."""
        stretches: list[tuple[array[int], Millis]] = []
        for store_ms, entries in groupby(self._entries, attrgetter("store_ms")):
            pairs = array("q")
            for entry in entries:
                if (entry.unique_key or entry.keys) and entry.is_indexed():
                    for key in entry.index_keys():
                        pairs.append(key_hash(key))
                        pairs.append(entry.physical_offset)
            stretches.append((pairs, store_ms))
        return stretches

    def arrivals(self, topic: str, queue_id: int) -> list[tuple[QueueOffset, int]]:
        """(next queue offset, tag code) of each record of a queue."""
        return [
            (entry.queue_offset + 1, entry.tag_code)
            for row in self._rows
            if row[0].topic == topic and row[0].queue_id == queue_id
            for entry in row
        ]
