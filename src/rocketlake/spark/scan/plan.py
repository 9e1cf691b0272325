"""The parts of a store to be read for the wanted messages: the shortest way that misses none.

Owns        choosing between single places, key index, consume queues and the log itself; cutting the work into parts.
Must not know   how parts are read, how rows are made.

Queues and index are built from the log and may be behind it: the part of the log that they do not cover is read from
the log. `Wanted` judges each record again, so a way may find too many records, never too few.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import UsageError
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.spark.scan.checkpoint import read_checkpoint
from rocketlake.spark.scan.key_lookup import KeyLookup
from rocketlake.spark.scan.log_map import TIME_MARGIN_MS, LogMap, QueueEntries
from rocketlake.spark.scan.options import ScanOptions
from rocketlake.spark.scan.parts import LogRange, Places, QueueSlice, ScanPart
from rocketlake.spark.scan.wanted import Wanted
from rocketlake.store.reader import StoreReader

__all__ = ["plan_messages"]

_PLACES_A_PART = 5000
_KEYS_MAX = 100_000
_RECORD_BYTES_GUESS = 1024


def plan_messages(reader: StoreReader, wanted: Wanted, options: ScanOptions) -> list[ScanPart]:
    """The parts of a read of table `messages`; none for an empty store."""
    return _Plan(reader, wanted, options).parts()


class _Plan:
    def __init__(self, reader: StoreReader, wanted: Wanted, options: ScanOptions) -> None:
        self._reader = reader
        self._wanted = wanted
        self._options = options
        self._map = LogMap(reader)
        self._end = self._map.used_end()
        self._start = reader.log.start
        self._low_ms, self._high_ms = (bound // 1000 for bound in wanted.bounds("storeTimestamp"))

    def parts(self) -> list[ScanPart]:
        if self._options.all_frames or not self._options.use_indexes:
            return [*self._log(self._start, self._end)]
        for way in (self._by_place, self._by_key, self._by_queue):
            found = way()
            if found is not None:
                return found
        return [*self._log(self._least_place(), self._greatest_place())]

    # -- the log -------------------------------------------------------------------------------------------------------

    def _least_place(self) -> int:
        low, _ = self._wanted.bounds("commitLogOffset")
        least = self._map.at_or_before(low) if low > self._start else self._start
        if self._low_ms > 0:
            least = max(least, self._map.before_time(self._low_ms))
        return least

    def _greatest_place(self) -> int:
        _, high = self._wanted.bounds("commitLogOffset")
        greatest = self._end
        if self._high_ms < 2**50:
            behind = self._map.after_time(self._high_ms + 1)
            greatest = greatest if behind is None else min(greatest, behind)
        return max(self._start, min(greatest, high + 1))

    def _log(self, start: int, end: int, without: tuple[tuple[str, int, int], ...] = ()) -> Iterator[LogRange]:
        safe_end = self._map.queued_end()
        for low, high in self._map.split(start, min(end, self._end), self._options.split_bytes):
            yield LogRange(low, high, safe_end, high == self._end, without)

    # -- single places -------------------------------------------------------------------------------------------------

    def _by_place(self) -> list[ScanPart] | None:
        places = self._wanted.values("commitLogOffset")
        ids = self._wanted.values("offsetMsgId")
        if ids is not None:
            found = _places_of(ids)
            places = found if places is None else places & found
        return None if places is None else self._places(places)

    def _places(self, places: frozenset[int]) -> list[ScanPart]:
        inside = sorted(place for place in places if self._start <= place < self._end)
        return [Places(tuple(inside[at : at + _PLACES_A_PART])) for at in range(0, len(inside), _PLACES_A_PART)]

    # -- the key index -------------------------------------------------------------------------------------------------

    def _by_key(self) -> list[ScanPart] | None:
        unique, words = self._wanted.values("msgId"), self._wanted.values("keys")
        if unique is None and words is None:
            return None
        keys = unique if unique is not None else {_first_word(text) for text in words or ()}
        topics = self._wanted.values("topic") or frozenset(self._reader.topics())
        if "" in keys or len(keys) * len(topics) > _KEYS_MAX:
            return None
        slots, is_stopped = self._options.index_slots, self._is_stopped()
        with closing(KeyLookup(self._reader.paths.index, slots, trust_slots=is_stopped)) as lookup:
            if not lookup.is_usable:
                return None
            found = lookup.places(f"{topic}#{key}" for topic in topics for key in keys)
            gaps = self._gaps(lookup, is_stopped=is_stopped)
        if gaps is None:
            return None
        if unique is not None:
            found |= _places_of(unique)  # a message without a key of its producer's has this id
        parts = self._places(frozenset(p for p in found if not any(start <= p < end for start, end in gaps)))
        for start, end in gaps:
            parts += self._log(start, end)
        return parts

    def _gaps(self, lookup: KeyLookup, *, is_stopped: bool) -> list[tuple[int, int]] | None:
        """Stretches of the log that the index does not cover; None if the index cannot be trusted."""
        gaps: list[tuple[int, int]] = []
        for before, start, end in lookup.gaps(self._start, self._end):
            head = self._map.head(start) if start != self._start else None
            if head is None and start != self._start:
                return None  # the index names a place where no record is: it belongs to another log
            start += head.size if head is not None and before is not None else 0
            gaps += [(start, end)] if start < end else []
        if not is_stopped:
            # A topic whose queues are not written yet is not among those that were looked up.
            dispatched = self._dispatched_end()
            if dispatched is None:
                return None
            gaps = [(start, min(end, dispatched)) for start, end in gaps if start < dispatched]
            gaps.append((dispatched, self._end))
        return gaps

    # -- consume queues ------------------------------------------------------------------------------------------------

    def _by_queue(self) -> list[ScanPart] | None:
        topics = self._wanted.values("topic")
        known = {topic for topic, _queue in self._map.queues}
        dispatched = self._dispatched_end()
        if topics is None or not topics <= known or dispatched is None:
            return None
        low_queue, high_queue = self._wanted.bounds("queueId")
        parts: list[ScanPart] = []
        read: list[tuple[str, int, int]] = []
        for (topic, queue_id), queue in sorted(self._map.queues.items()):
            if topic in topics:
                read.append((topic, queue_id, queue.end))
                if low_queue <= queue_id <= high_queue:
                    parts += self._slices(queue)
        parts += self._log(max(dispatched, self._least_place()), self._greatest_place(), tuple(read))
        return parts

    def _slices(self, queue: QueueEntries) -> Iterator[QueueSlice]:
        low, high = self._wanted.bounds("queueOffset")
        start, end = max(queue.low, low), min(queue.end, high + 1)
        if self._low_ms > 0:
            start = max(start, self._map.offset_at(queue, self._low_ms - TIME_MARGIN_MS))
        if self._high_ms < 2**50:
            end = min(end, self._map.offset_at(queue, self._high_ms + 1 + TIME_MARGIN_MS))
        if start >= end:
            return
        sizes = [queue.place(offset)[1] for offset in np.linspace(start, end - 1, 50, dtype=int).tolist()]
        step = max(1, self._options.split_bytes // max(1, sum(sizes) // len(sizes) or _RECORD_BYTES_GUESS))
        for at in range(start, end, step):
            yield QueueSlice(queue.topic, queue.queue_id, at, min(end, at + step))

    def _is_stopped(self) -> bool:
        return not PosixFiles().exists(self._reader.paths.abort)

    def _dispatched_end(self) -> int | None:
        """All records before this place of the log are in their queues; None if the place is not known."""
        checkpoint = read_checkpoint(self._reader.paths.checkpoint)
        if checkpoint is None:
            return None
        if self._is_stopped():
            return self._map.queued_end()
        return self._map.before_time(max(0, min(checkpoint.physic_ms, checkpoint.logics_ms) - TIME_MARGIN_MS))


def _first_word(text: str) -> str:
    return next((word for word in text.split(" ") if word), "")


def _places_of(ids: frozenset[str]) -> frozenset[int]:
    places: set[int] = set()
    for text in ids:
        try:
            places.add(parse_offset_message_id(text)[2])
        except UsageError:
            continue  # no such id: no such message
    return frozenset(places)
