"""The starts of records in a commit log, by the consume queues, without reading the log.

Owns        known record starts near a position or a time; the end of the used part of the log.
Must not know   records, Spark.

Every queue's entries rise with the log, so a few binary searches find a record near any place of a log of any size.
Without queues the log is walked, or the starts of files are used.

Store times are taken as rising, give or take three seconds, as RocketMQ's own search by time takes them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rocketlake.codec import record_layout as layout
from rocketlake.codec.record_walk import walk
from rocketlake.model import sys_flag
from rocketlake.store.consume_queue.entry import ENTRY_SIZE
from rocketlake.store.offset_files import OffsetFiles
from rocketlake.store.reader import StoreReader

__all__ = ["TIME_MARGIN_MS", "Head", "LogMap", "QueueEntries"]

TIME_MARGIN_MS = 3000
_SAMPLES = 16
_CHUNK_BYTES = 4 << 20
_HEAD_BYTES = layout.RECORD_BYTES_MIN
_HEAD = struct.Struct(">iiiiiqqi")
_LONG = struct.Struct(">q")
_ENTRY = struct.Struct(">qi")


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a record."""

    size: int
    queue_id: int
    queue_offset: int
    store_ms: int


class QueueEntries:
    """One consume queue as a rising list of places in the log."""

    def __init__(self, reader: StoreReader, topic: str, queue_id: int) -> None:
        files = reader.queue_files(topic, queue_id)
        assert files is not None
        self.topic, self.queue_id = topic, queue_id
        self._files: OffsetFiles = files
        self.low, self.end = reader.written_range(topic, queue_id)
        self.last_end = sum(self.place(self.end - 1)) if self.end > self.low else 0
        """End of the last record that the queue names."""
        files.close()  # there may be ten thousand queues

    def place(self, offset: int) -> tuple[int, int]:
        """(physical offset, size) of an entry; (-1, 0) if it is gone."""
        data = self._files.read(offset * ENTRY_SIZE, _ENTRY.size)
        if len(data) < _ENTRY.size:
            return -1, 0
        place, size = _ENTRY.unpack(data)
        return place, size

    def first(self, holds: Callable[[int], bool]) -> int:
        """The first offset for which `holds`, which is false up to there and true behind; `end` without one."""
        low, high = self.low, self.end
        while low < high:
            middle = (low + high) // 2
            if holds(middle):
                high = middle
            else:
                low = middle + 1
        return low


class LogMap:
    """Known places of one store's log."""

    def __init__(self, reader: StoreReader) -> None:
        self.log = reader.log
        queues = [QueueEntries(reader, topic, queue) for topic in reader.topics() for queue in reader.queue_ids(topic)]
        self.queues: dict[tuple[str, int], QueueEntries] = {(each.topic, each.queue_id): each for each in queues}
        self._samples = sorted(queues, key=lambda queue: queue.low - queue.end)[:_SAMPLES]
        self._samples = [queue for queue in self._samples if queue.end > queue.low]

    # -- what is there -------------------------------------------------------------------------------------------------

    def used_end(self) -> int:
        """End of the last file that is not all zeros: brokers make files ahead."""
        for start in reversed(self.log.starts):
            if any(self.log.read(start, layout.BLANK_BYTES)):
                return self.log.file_end(start)
        return self.log.start

    def queued_end(self) -> int:
        """End of the last record that any queue names."""
        ends = [queue.last_end for queue in self.queues.values() if queue.last_end <= self.log.end]
        return max([self.log.start, *ends])

    def head(self, place: int) -> Head | None:
        """The head of the record that starts at a place; None if none does."""
        data = self.log.read(place, _HEAD_BYTES)
        if len(data) < _HEAD_BYTES:
            return None
        size, magic, _crc, queue_id, _flag, queue_offset, own, flags = _HEAD.unpack_from(data)
        if magic not in (layout.MAGIC_V1, layout.MAGIC_V2) or own != place or size < layout.RECORD_BYTES_MIN:
            return None
        at = layout.STORE_MS_AT + (12 if flags & sys_flag.BORN_HOST_V6 else 0)
        return Head(size, queue_id, queue_offset, _LONG.unpack_from(data, at)[0])

    def _is_entry_of(self, queue: QueueEntries, offset: int) -> bool:
        head = self.head(queue.place(offset)[0])
        return head is not None and head.queue_id == queue.queue_id and head.queue_offset == offset

    # -- places --------------------------------------------------------------------------------------------------------

    def at_or_after(self, position: int) -> int | None:
        """A record start that is not before `position`, near it; None if no queue knows one."""
        found: list[int] = []
        for queue in self._samples:
            offset = queue.first(lambda offset, queue=queue: queue.place(offset)[0] >= position)  # type: ignore[misc]
            if offset < queue.end and self._is_entry_of(queue, offset):
                found.append(queue.place(offset)[0])
        return min(found, default=None)

    def at_or_before(self, position: int) -> int:
        """A record start that is not behind `position`, near it; the start of the position's file at worst."""
        return self._last(lambda queue: lambda offset: queue.place(offset)[0] > position, self.log.file_start(position))

    def before_time(self, ms: int) -> int:
        """A record start; no record before it was stored at `ms` or later."""
        floor = self.log.start
        for start in self.log.starts:
            head = self.head(start)
            if head is not None and head.store_ms < ms - TIME_MARGIN_MS:
                floor = start
        return self._last(lambda queue: lambda offset: self._store_ms(queue, offset) >= ms - TIME_MARGIN_MS, floor)

    def after_time(self, ms: int) -> int | None:
        """A record start; no record from there on was stored at `ms` or earlier. None if there is no such start."""
        found: list[int] = []
        for start in self.log.starts:
            head = self.head(start)
            if head is not None and head.store_ms > ms + TIME_MARGIN_MS:
                found.append(start)
                break
        for queue in self._samples:
            offset = self.offset_at(queue, ms + TIME_MARGIN_MS + 1)
            if offset < queue.end and self._is_entry_of(queue, offset):
                found.append(queue.place(offset)[0])
        return min(found, default=None)

    def offset_at(self, queue: QueueEntries, ms: int) -> int:
        """First offset of a queue whose message was stored at `ms` or later."""
        return queue.first(lambda offset: self._store_ms(queue, offset) >= ms)

    def _store_ms(self, queue: QueueEntries, offset: int) -> int:
        head = self.head(queue.place(offset)[0])
        return 0 if head is None else head.store_ms

    def _last(self, is_behind: Callable[[QueueEntries], Callable[[int], bool]], floor: int) -> int:
        """The greatest known place, from `floor` on, of the entries just before the first that is behind."""
        found = floor
        for queue in self._samples:
            offset = queue.first(is_behind(queue)) - 1
            if offset >= queue.low and self._is_entry_of(queue, offset):
                found = max(found, queue.place(offset)[0])
        return found

    # -- splits --------------------------------------------------------------------------------------------------------

    def split(self, start: int, end: int, split_bytes: int) -> Iterator[tuple[int, int]]:
        """[start, end) in parts of about `split_bytes`, each from a record start on; `start` is one."""
        while end - start > split_bytes * 3 // 2:
            middle = self.at_or_after(start + split_bytes) if self._samples else self._walk_to(start, split_bytes)
            if middle is None or middle >= end:
                break
            yield start, middle
            start = middle
        if end > start:
            yield start, end

    def _walk_to(self, start: int, distance: int) -> int | None:
        """The first record start at least `distance` behind `start`, found by walking; None behind damage."""
        position, size = start, _CHUNK_BYTES
        while data := self.log.read(position, size):
            starts, taken, _status = walk(data, position)
            places = np.frombuffer(starts, dtype=np.int64) + position
            hits = places[places >= start + distance]
            if len(hits):
                return int(hits[0])
            position += taken
            if not taken:
                position = self.log.file_end(position)
                if self.head(position) is None:
                    return None
                if position >= start + distance:
                    return position
        return None
