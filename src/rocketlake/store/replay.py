"""The walk over the log at a start: records that queues or key index lack are dispatched again.

Owns        which of the walked records are dispatched; going back when a queue turns out to lack older ones.
Must not know   how a record is taken apart (dispatch_scan.py), how the walk goes (log_walk.py), where it should start
            (recovery.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rocketlake.base.clock import Clock, Millis
from rocketlake.base.logs import get_logger
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.consume_queue.queue import ConsumeQueue
from rocketlake.store.dispatch_scan import DispatchEntry
from rocketlake.store.known_records import KnownRecords, QueueEnd
from rocketlake.store.log_walk import LogWalk
from rocketlake.store.mapped_file_list import LogFiles
from rocketlake.store.parts import StoreParts
from rocketlake.store.queue_check import QueueCheck
from rocketlake.store.slow_work import Progress

__all__ = ["Replay", "file_of"]

_log = get_logger(__name__)

_NO_LIMIT = PhysicalOffset(2**63 - 1)
_NOWHERE = PhysicalOffset(-1)


class Replay:
    """One walk over the log of a store that is being opened."""

    def __init__(self, parts: StoreParts, check: QueueCheck, has_index: Callable[[], bool]) -> None:
        """`check` knows the queues that lack older records. `has_index`: there is a key index, and it is loaded."""
        self.missing_from = PhysicalOffset(0)
        """Records from this physical offset on may be missing in any queue; before it in those that `check` wants."""
        self.last_store_ms = Millis(0)
        """Store time of the last record walked, 0 without one."""
        self.damaged_from: PhysicalOffset | None = None
        """Where the first damaged record starts that was walked."""
        self._check = check
        self._has_index = has_index
        self._log = parts.log
        self._table = parts.queues
        self._index = parts.index
        self._dispatch = parts.dispatch
        self._deletions = parts.deletions
        self._config = parts.config
        self._delays_ms = parts.delays_ms
        self._clock = parts.clock

    def run(self, start: int, safe_end: PhysicalOffset, *, all_known: bool) -> tuple[PhysicalOffset, PhysicalOffset]:
        """Dispatch what is missing from log file number `start` on; where the walk started, and where the log ends.

        `all_known`: before `missing_from` only wanted queues lack entries.
        A queue that ends before the first record found for it lost more than the checkpoint knows of (a power cut may
        take any page that was not synced): then the walk is done again from where that queue ends.
        """
        files = self._log.list.files
        while True:
            first = files[start].start
            below = self.missing_from if all_known and not self._check.wanted else _NOWHERE
            known = self._known_records(below, safe_end)
            self._dispatch.begin_rebuild(first)
            progress = _WalkProgress(self._clock, first, files[-1].end)
            check_crc = self._config.check_crc_on_recover
            walk = LogWalk(self._log, first, safe_end, check_crc, self._delays_ms, known, progress.note)
            behind_gap = self._replay_walk(walk, known, may_go_back=start > 0)
            progress.ended(walk.end)
            self.damaged_from = walk.damaged_from
            if behind_gap is None:
                if walk.last_store_ms:
                    self.last_store_ms = self._dispatch.last_store_ms = walk.last_store_ms
                return first, walk.end
            self._check.want_rest([behind_gap], "the next record of it comes later than its end")
            start = min(start - 1, file_of(self._log.list, behind_gap.max_physical_offset))
            if not all_known:
                self.missing_from = min(self.missing_from, files[start].start)

    def _known_records(self, below: PhysicalOffset, safe_end: PhysicalOffset) -> KnownRecords:
        """The records that queues and index have at the start of a walk."""
        index_below = self._index.last_physical_offset if self._has_index() else _NO_LIMIT
        known = KnownRecords(below, index_below, safe_end)
        known.dead = {topic.encode("utf-8", "surrogatepass"): end for topic, end in self._deletions.topics.items()}
        for queue in self._table:
            ends = known.queues.setdefault(queue.topic.encode("utf-8", "surrogateescape"), {})
            ends[queue.queue_id] = QueueEnd(queue.max_physical_offset)
        return known

    def _replay_walk(self, walk: LogWalk, known: KnownRecords, *, may_go_back: bool) -> ConsumeQueue | None:
        """Dispatch the walked records. A queue that would be left with a gap ends the walk, and is returned."""
        seen: set[tuple[str, int]] = set()
        for entries in walk.chunks():
            missing = self._missing(entries)
            if may_go_back:
                for entry in missing:
                    if (queue := self._before_gap(entry, known, seen)) is not None:
                        return queue
            self._dispatch.rebuild(missing)
        return None

    def _missing(self, entries: Sequence[DispatchEntry]) -> Sequence[DispatchEntry]:
        """The records to dispatch; of older records only the keys, and the entries of wanted queues.

        Others are in their queue, or belong to a topic that was deleted.
        """
        if entries[0].physical_offset >= self.missing_from:
            return entries
        wanted: Collection[tuple[str, int]] = self._check.wanted
        missing: list[DispatchEntry] = []
        for entry in entries:
            if entry.physical_offset >= self.missing_from or (entry.topic, entry.queue_id) in wanted:
                missing.append(entry)
            elif self._config.index_enabled and entry.is_indexed():
                self._dispatch.rebuild_keys(entry)
        return missing

    def _before_gap(self, entry: DispatchEntry, known: KnownRecords, seen: set[tuple[str, int]]) -> ConsumeQueue | None:
        """The queue of a record, if this is its first one in the walk and entries before it are missing."""
        key = entry.topic, entry.queue_id
        is_dead = self._deletions.is_dead(entry.topic, entry.physical_offset, entry.queue_id)
        if key in seen or is_dead or not entry.is_queued():
            return None
        seen.add(key)
        end = known.queues.get(entry.topic.encode(), {}).get(entry.queue_id)
        if end is not None and end.is_seen:
            return None
        queue = self._table.find(*key)
        leaves_gap = (
            queue is not None
            and entry.queue_offset > queue.max_offset
            and entry.physical_offset + entry.size > queue.max_physical_offset
        )
        return queue if leaves_gap else None


class _WalkProgress:
    """How far the walk over the log is, for the operator who waits for the start."""

    def __init__(self, clock: Clock, start: PhysicalOffset, end: PhysicalOffset) -> None:
        self._progress = Progress(clock)
        self._start = start
        self._size = end - start

    def note(self, position: PhysicalOffset) -> None:
        if self._progress.is_due():
            self._say("under way", position)

    def ended(self, position: PhysicalOffset) -> None:
        if self._progress.was_due:
            self._say("done", position)

    def _say(self, state: str, position: PhysicalOffset) -> None:
        walked = position - self._start
        _log.info(
            "recovery %s: %.0f %%, %d of %d bytes of the log from %d on, %.0f s",
            state,
            100 * walked / self._size if self._size else 100.0,
            walked,
            self._size,
            self._start,
            self._progress.seconds,
        )


def file_of(log: LogFiles, offset: PhysicalOffset | None) -> int:
    """Number of the file that holds a physical offset, the oldest one is 0; the last one for None."""
    if offset is None:
        return len(log.files) - 1
    return max((number for number, mapped in enumerate(log.files) if mapped.start <= offset), default=0)
