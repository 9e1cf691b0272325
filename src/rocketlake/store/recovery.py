"""Find out what a store holds when it is opened: where the log ends, what queues and index lack.

Owns        where the walk over the log starts, where the log ends, cutting what lies behind, making the rest safe.
Must not know   how a record is taken apart (dispatch_scan.py), how a queue finds its own end (consume_queue/).

Invariant: afterwards log, queues and index agree, the log ends in zeros and has been synced, and so has what was cut of
queues and index: no power cut brings it back.
Invariant: nothing that is known to have been synced is cut off: a broken record there is passed over.

Rules: docs/internals/store_layout.md, "Recovery".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rocketlake.base.logs import get_logger
from rocketlake.codec.record_layout import MAGIC_AT, MAGIC_V1, MAGIC_V2
from rocketlake.store.checkpoint import Checkpoint
from rocketlake.store.commit_log import CommitLog
from rocketlake.store.config import StoreConfig
from rocketlake.store.consume_queue.table import ConsumeQueueTable
from rocketlake.store.dispatch import Dispatch
from rocketlake.store.dispatch_scan import BLANK, END, DispatchEntry, scan
from rocketlake.store.key_index.files import KeyIndex
from rocketlake.store.known_records import KnownRecords, QueueEnd
from rocketlake.store.mapped_file import MappedFile

__all__ = ["LogWalk", "Recovery"]

_log = get_logger(__name__)

_CHUNK = 1024 * 1024
_NO_LIMIT = 2**63 - 1
_MAGICS = tuple(magic.to_bytes(4, "big", signed=True) for magic in (MAGIC_V1, MAGIC_V2))


class LogWalk:
    """The sound records from a position on; `end` is behind the last one once `chunks` is exhausted."""

    def __init__(
        self,
        log: CommitLog,
        start: int,
        safe_end: int,
        check_crc: bool,
        delays_ms: Sequence[int],
        known: KnownRecords | None = None,
    ) -> None:
        """`safe_end`: below it everything was synced once, so a broken record there is damage, not the end.

        `known` records are walked over and not given out.
        """
        self.end = start
        self.last_store_ms = 0
        """Store time of the last record, 0 without one."""
        self._known = known
        self._log = log
        self._safe_end = safe_end
        self._check_crc = check_crc
        self._delays_ms = delays_ms

    def chunks(self) -> Iterator[list[DispatchEntry]]:
        """The records in order, in lists of bounded size."""
        for mapped in self._log.list.files:
            if mapped.end <= self.end:
                continue
            yield from self._file(mapped, max(0, self.end - mapped.start))
            if self.end < mapped.end:
                return

    def _file(self, mapped: MappedFile, position: int) -> Iterator[list[DispatchEntry]]:
        """The records of one file; `end` is the file's end if the walk may go on in the next."""
        size = _CHUNK
        while position < mapped.size:
            position += self._passed(mapped, position)
            view = mapped.view[position : position + size]
            entries, taken, status = scan(view, mapped.start + position, self._check_crc, self._delays_ms)
            if entries:
                self.last_store_ms = entries[-1].store_ms
                yield entries
            position += taken
            self.end = mapped.start + position
            if status == BLANK:
                self.end = mapped.end
                return
            if taken:
                continue
            if status == END and len(view) == size:  # a record longer than the chunk
                size *= 2
                continue
            resumed = self._resume(mapped, position)
            if resumed is None:
                return
            position = resumed
            self.end = mapped.start + position
            size = _CHUNK

    def _passed(self, mapped: MappedFile, position: int) -> int:
        """Bytes of records from `position` on that are known."""
        if self._known is None:
            return 0
        passed = self._known.skip(mapped.view[position:], mapped.start + position, self._check_crc)
        if passed:
            self.last_store_ms = self._known.last_store_ms
        return passed

    def _resume(self, mapped: MappedFile, position: int) -> int | None:
        """Where the next sound record starts when the one at `position` is damaged; None if the log ends here."""
        if mapped.start + position >= self._safe_end:
            return None
        _log.error("the record at %d of %s is damaged or lost", mapped.start + position, mapped.path)
        for start in _record_starts(mapped.view, position + 1):
            view = mapped.view[start : start + 2 * _CHUNK]
            sound, _taken, _status = scan(view, mapped.start + start, self._check_crc, self._delays_ms)
            if sound:
                return start
        return mapped.size if mapped.end < self._safe_end else None


def _record_starts(view: memoryview, position: int) -> Iterator[int]:
    """Positions from `position` on at which a record could start, by its magic."""
    for base in range(position + MAGIC_AT, len(view), _CHUNK):
        block = bytes(view[base : base + _CHUNK + 3])
        found = sorted(index for magic in _MAGICS for index in _occurrences(block, magic))
        yield from (base + index - MAGIC_AT for index in found if index < _CHUNK)


def _occurrences(data: bytes, wanted: bytes) -> Iterator[int]:
    index = data.find(wanted)
    while index >= 0:
        yield index
        index = data.find(wanted, index + 1)


class Recovery:
    """Brings the parts of a store into agreement; all of them have been loaded, nothing else runs."""

    def __init__(
        self,
        log: CommitLog,
        table: ConsumeQueueTable,
        index: KeyIndex,
        dispatch: Dispatch,
        checkpoint: Checkpoint,
        config: StoreConfig,
        delays_ms: Sequence[int],
    ) -> None:
        self._log = log
        self._table = table
        self._index = index
        self._dispatch = dispatch
        self._checkpoint = checkpoint
        self._config = config
        self._delays_ms = delays_ms
        self._last_store_ms = 0

    def run(self, *, clean: bool) -> None:
        """`clean`: the last stop was one (no abort file). Raises StoreError or OSError when the disk refuses."""
        if not self._log.list.files:
            self._table.destroy_all()
            self._index.destroy_all()
            self._dispatch.position = 0
            return
        dispatched = self._table.max_physical_offset()
        safe_end = max(self._checkpoint.confirm_offset, dispatched if clean else 0)
        # There was an index once, and its folder is lost: the whole log is there to make it from.
        lacks_index = self._config.index_enabled and self._checkpoint.index_ms > 0 and self._index.last_ms == 0
        start = 0 if lacks_index else self._start_index(clean, dispatched)
        first_walked = self._log.list.files[start].start
        end = self._replay(start, dispatched if clean and not lacks_index else -1, safe_end)
        if end < safe_end:
            _log.error("the log ends at %d, but it was safe up to %d: messages are lost", end, safe_end)
        self._table.truncate_after(end)
        self._index.truncate_after(end)
        self._log.list.truncate(end)
        self._secure(clean, first_walked)
        self._dispatch.position = end
        self._note_safe(end, clean=clean)

    def _start_index(self, clean: bool, dispatched: int) -> int:
        """Index of the newest file before which queues (and index, if asked for) lack nothing."""
        checkpoint, config = self._checkpoint, self._config
        index_ms = checkpoint.index_ms if config.index_enabled and config.index_safe else None
        files = self._log.list.files
        for index in range(len(files) - 1, 0, -1):
            start = files[index].start
            store_ms = self._log.store_ms_at(start) if self._log.record(start) is not None else 0
            if store_ms <= 0 or (index_ms is not None and store_ms > index_ms):
                continue
            if start <= dispatched if clean else store_ms <= checkpoint.min_ms:
                return index
        return 0

    def _replay(self, start: int, dispatched: int, safe_end: int) -> int:
        """Dispatch from file `start` on what lies at or behind `dispatched`; returns where the log ends.

        A queue that ends before the first record found for it lost more than the checkpoint knows of (a power cut may
        take any page that was not synced): then the walk is done again from the file before.
        """
        while True:
            known = self._known_records(dispatched, safe_end)
            walk = LogWalk(
                self._log,
                self._log.list.files[start].start,
                safe_end,
                self._config.check_crc_on_recover,
                self._delays_ms,
                known,
            )
            if self._replay_walk(walk, known, dispatched, may_go_back=start > 0):
                if walk.last_store_ms:
                    self._last_store_ms = self._dispatch.last_store_ms = walk.last_store_ms
                return walk.end
            start -= 1

    def _known_records(self, dispatched: int, safe_end: int) -> KnownRecords:
        """What queues and index have at the begin of a walk."""
        index_below = self._index.last_physical_offset if self._config.index_enabled else _NO_LIMIT
        known = KnownRecords(dispatched, index_below, safe_end)
        for queue in self._table:
            ends = known.queues.setdefault(queue.topic.encode("utf-8", "surrogateescape"), {})
            ends[queue.queue_id] = QueueEnd(queue.max_physical_offset)
        return known

    def _replay_walk(self, walk: LogWalk, known: KnownRecords, dispatched: int, *, may_go_back: bool) -> bool:
        seen: set[tuple[str, int]] = set()
        for entries in walk.chunks():
            missing = [entry for entry in entries if entry.physical_offset >= dispatched]
            if may_go_back and any(self._leaves_gap(entry, known, seen) for entry in missing):
                return False
            self._dispatch.rebuild(missing)
        return True

    def _leaves_gap(self, entry: DispatchEntry, known: KnownRecords, seen: set[tuple[str, int]]) -> bool:
        """Is this the first record of its queue in the walk, and are entries before it missing?"""
        key = entry.topic, entry.queue_id
        if key in seen or not entry.is_queued():
            return False
        seen.add(key)
        end = known.queues.get(entry.topic.encode(), {}).get(entry.queue_id)
        if end is not None and end.is_seen:
            return False
        queue = self._table.find(*key)
        return (
            queue is not None
            and entry.queue_offset > queue.max_offset
            and entry.physical_offset + entry.size > queue.max_physical_offset
        )

    def _secure(self, clean: bool, first_walked: int) -> None:
        """Sync what was kept and what was cut; after a crash only the log, and of queues and index what was cut.

        Else ten thousand queues would each wait for the disk before the first message: they are synced by the first
        thorough round, and until then the checkpoint says nothing of them.

        After a crash the bytes behind the last known sync are written once more before: if that crash was a failed
        sync, the kernel may hold them in memory as if they were on disk, and a mere sync would do nothing.
        """
        log = self._log.list
        offset = log.wrote_offset
        if not clean:
            known = self._checkpoint.confirm_offset
            offset = min(offset, max(known, log.min_offset) if known else first_walked)
        log.secure(offset)
        if clean:
            self._table.flush()
            self._index.flush()

    def _note_safe(self, end: int, *, clean: bool) -> None:
        """The checkpoint now says: the log is safe. Queues and index follow with the first thorough round."""
        self._checkpoint.confirm_offset = end
        if self._last_store_ms > 0:
            self._log.last_store_ms = self._last_store_ms
            self._checkpoint.physic_ms = self._last_store_ms
            if clean:
                self._checkpoint.logics_ms = self._last_store_ms
