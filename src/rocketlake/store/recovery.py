"""Find out what a store holds when it is opened: where the log ends, which entries queues and index lack.

Owns        where the walk over the log starts, cutting the bytes behind its end, syncing the rest.
Must not know   which records are dispatched again (replay.py), how a queue finds its own end (consume_queue/), which
            queues are damaged (queue_check.py).

Invariant: afterwards log, queues and index agree, and the log ends in zeros. The log and all cuts of queues and index
have been synced: no power cut brings cut bytes back.
Invariant: where the walk starts follows from positions in the log. Times count only for a store without such a
position (Apache's broker used it last), and then the clock may have been set in between.

Rules: docs/internals/store_layout.md, "Recovery".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rocketlake.base.clock import Millis
from rocketlake.base.logs import get_logger
from rocketlake.codec.record_layout import MAGIC_BLANK
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.commit_log import RECORD_HEAD_BYTES, record_bytes
from rocketlake.store.consume_queue.ends import DAMAGED_INDEX, NO_INDEX, KnownEnds, QueueKey
from rocketlake.store.consume_queue.queue import ConsumeQueue, Entry
from rocketlake.store.cut import cut_files
from rocketlake.store.mapped_file import LogFile
from rocketlake.store.number_check import NumberCheck
from rocketlake.store.parts import StoreParts
from rocketlake.store.queue_check import QueueCheck
from rocketlake.store.replay import Replay, file_of

__all__ = ["Recovery"]

_log = get_logger(__name__)

_START = PhysicalOffset(0)
_NOWHERE = PhysicalOffset(-1)
_MAGIC_BLANK = MAGIC_BLANK.to_bytes(4, "big", signed=True)


class Recovery:
    """Brings the parts of a store into agreement; all of them have been loaded, nothing else runs."""

    def __init__(self, parts: StoreParts, distrust: Callable[[], object]) -> None:
        """`distrust`: a crash from now on must not leave behind that queues and index lack nothing."""
        self._log = parts.log
        self._table = parts.queues
        self._index = parts.index
        self._dispatch = parts.dispatch
        self._deletions = parts.deletions
        self._checkpoint = parts.checkpoint
        self._ends = parts.ends
        self._config = parts.config
        self._delays_ms = parts.delays_ms
        self._distrust = distrust
        self._late = parts.late
        self._clock = parts.clock
        self._check = QueueCheck(parts.queues, distrust)
        parts.dispatch.has_wrong_number = NumberCheck(parts.log, parts.queues, parts.deletions).is_wrong
        self._known: KnownEnds | None = None
        """The content of the file of ends."""
        self._is_clean = False
        self._replay = Replay(parts, self._check, lambda: self._has_index)
        self._cut: dict[ConsumeQueue, tuple[QueueOffset, list[Entry]]] = {}
        """Queue -> where it ended, and the entries taken out of its end, newest first."""
        self.damaged_from: PhysicalOffset | None = None
        """From here on records are missing that were safe once."""

    def run(
        self, *, clean: bool, torn: Sequence[ConsumeQueue] = (), gone: Mapping[QueueKey, PhysicalOffset] | None = None
    ) -> None:
        """`clean`: the last stop was one (no abort file). Raises StoreError or OSError when the disk refuses.

        `torn`: queues that lost entries in their middle. `gone`: queues that were dropped, and from which physical
        offset on they are built again.
        """
        if not self._log.list.files:
            if self._checkpoint.confirm_offset:
                self.damaged_from = _START
                _log.error(
                    "the log has no file, but it was safe up to %d: its messages are lost",
                    self._checkpoint.confirm_offset,
                )
            self._table.destroy_all()
            self._index.destroy_all()
            self._dispatch.position = self._checkpoint.confirm_offset = self._checkpoint.derived_offset = _START
            return
        self._say_empty_files()
        # A queue with damaged files says nothing reliable of the log's end; the checkpoint page has a checksum.
        dispatched = self._checkpoint.confirm_offset if self._checkpoint.is_ours else self._sound_end_of_queues()
        believes_queues = clean or self._checkpoint.is_distrusted
        safe_end = max(self._checkpoint.confirm_offset, dispatched if believes_queues else _START)
        known = self._ends.read() if self._checkpoint.is_ours else None
        self._known, self._is_clean = known, clean
        self._check.want_rest(torn, "entries in its middle are damaged")
        self._check.wanted.update(gone or {})
        if not clean or self._checkpoint.is_distrusted:
            self._check.want_rest(self._cut_queues(), "its newest entries lead to no record (a power cut may do that)")
        if known is not None:
            known.forget_deleted(self._deletions.topics)
            self._check.compare(known, is_clean=clean)
        self._check.want_begins(self._log.min_offset)
        all_keys = self._has_index and self._lacks_keys(known, clean=clean)
        usual = self._start_index(clean, dispatched)
        self._replay.missing_from = dispatched if clean else self._log.list.files[usual].start
        start = 0 if all_keys else min(usual, file_of(self._log.list, self._check.start))
        first_walked, end = self._replay.run(start, safe_end, all_known=clean and not all_keys)
        self.damaged_from = self._replay.damaged_from
        if end < safe_end:
            self.damaged_from = end if self.damaged_from is None else min(self.damaged_from, end)
            _log.error("the log ends at %d, but it was safe up to %d: messages are lost", end, safe_end)
        self._say_cut(end)
        cut_files(self._log, self._table, self._index, end)
        behind = self._dispatch.behind
        self._dispatch.position = end if behind is None else min(behind, end)
        lacking = f"the queues or the key index lack messages from {behind} of the log on"
        self._late.then(lacking, lambda: self._has_all(end))
        self._late.then("the offsets that were given out are not noted", lambda: self._keep_offsets(end))
        self._secure(clean, first_walked)
        self._note_safe(end, first_walked, clean=clean)

    def index_came_late(self) -> None:
        """The walk over the log was over before the key index could be loaded. Raises OSError.

        If it lacks keys of records before the walk, all keys are put in anew. The queues stay as they are.
        """
        if self._log.list.files and self._lacks_keys(self._known, clean=self._is_clean):
            self._dispatch.behind = self._dispatch.position = self._log.min_offset

    @property
    def _has_index(self) -> bool:
        """False too if it could not be loaded yet."""
        return self._config.index_enabled and not self._dispatch.waits_for_index

    def _has_all(self, end: PhysicalOffset) -> bool:
        """True when every record is dispatched that the start found in the log."""
        if self._dispatch.waits_for_index or self._dispatch.position < end:
            return False
        self._dispatch.behind = None
        return True

    def _keep_offsets(self, end: PhysicalOffset) -> bool:
        """Only when the queues have all records of the log: fillers are never overwritten."""
        self._check.finish(self._deletions.begun_anew)
        self._keep_offsets_of_damaged(end)
        return True

    def _sound_end_of_queues(self) -> PhysicalOffset:
        """Where the last record ends that is in the log and in a queue; -1 without one."""
        return max((self._sound_end(queue) for queue in self._table), default=_NOWHERE)

    def _sound_end(self, queue: ConsumeQueue) -> PhysicalOffset:
        last = queue.entry(queue.max_offset - 1)
        return last[0] + last[1] if last is not None and self._leads_to_record(last) else _NOWHERE

    def _leads_to_record(self, entry: Entry) -> bool:
        """True, too, for a record that has expired: the log cannot tell any more."""
        if entry[0] < self._log.min_offset:
            return True
        record = self._log.record(entry[0])
        return record is not None and len(record) == entry[1]

    def _cut_queues(self) -> list[ConsumeQueue]:
        """Take the newest entries that lead to no record out of each queue; the queues that lost some.

        Else an entry with a flipped bit would count as one of the log's lost end, and its record be missing for good.
        """
        for queue in self._table:
            old_end = queue.max_offset
            if queue.files and (cut := queue.cut_end(self._leads_to_record)):
                self._cut[queue] = old_end, cut
            queue.ends_in_log(self._log.min_offset)
        return list(self._cut)

    def _keep_offsets_of_damaged(self, log_end: PhysicalOffset) -> None:
        """Entries that were cut may be of damaged records in the log: their queue offsets are not given out again."""
        for queue, (old_end, cut) in self._cut.items():
            newest = next((number for number, entry in enumerate(cut) if entry[0] < log_end), None)
            if newest is not None:
                self._table.reach(queue.topic, queue.queue_id, old_end - newest)

    def _say_empty_files(self) -> None:
        """A file before the last one that begins with no record: a disk lost it. Readers pass its messages by."""
        for mapped in self._log.list.files[:-1]:
            if mapped.start >= self._checkpoint.confirm_offset:
                continue
            # Not through the view: a first touch of it has the kernel read megabytes behind, of each file.
            head = mapped.file.pread(RECORD_HEAD_BYTES, 0)
            if 0 < record_bytes(head, mapped.start) <= mapped.size or head[4:8] == _MAGIC_BLANK:
                continue
            what = "holds only zeros" if mapped.file.is_zero_from(0) else "does not begin with a record"
            _log.error(
                "%s %s: messages from %d to %d of the log are lost or damaged",
                mapped.path,
                what,
                mapped.start,
                mapped.end,
            )

    def _say_cut(self, end: PhysicalOffset) -> None:
        """Say how many bytes behind the last sound record go: the operator knows what a crash cost."""
        behind = 0
        for mapped in self._log.list.files:
            if mapped.end > end:
                behind += _used_bytes(mapped, max(0, end - mapped.start))
        if behind:
            _log.warning("the log ends at %d: %d bytes behind it are no whole record and are cut off", end, behind)

    # -- where to start ------------------------------------------------------------------------------------------------

    def _start_index(self, clean: bool, dispatched: PhysicalOffset) -> int:
        """Index of the newest file before which queues (and index, if asked for) lack nothing."""
        checkpoint = self._checkpoint
        if clean:
            return file_of(self._log.list, max(_START, dispatched))
        if checkpoint.is_ours:
            return file_of(self._log.list, min(checkpoint.derived_offset, checkpoint.confirm_offset))
        return self._start_index_by_time()

    def _start_index_by_time(self) -> int:
        """The same when only times are known. The clock may have been set back in between.

        Up to the first file that begins later than the checkpoint times rise as if nothing had happened; a step inside
        of a file is not seen, so one file more is walked.
        """
        checkpoint, config = self._checkpoint, self._config
        safe_ms = checkpoint.min_index_ms if config.index_enabled and config.index_safe else checkpoint.min_ms
        files = self._log.list.files
        for index, mapped in enumerate(files):
            store_ms = self._log.store_ms_at(mapped.start) if self._log.record(mapped.start) is not None else 0
            if store_ms <= 0 or store_ms > safe_ms:
                return max(0, index - 2)
        return max(0, len(files) - 2)

    def _lacks_keys(self, known: KnownEnds | None, *, clean: bool) -> bool:
        """True if the key index must be made from the whole log; it is empty then."""
        if known is None:
            # There was an index once, and its folder is lost: the whole log is there to make it from.
            return self._checkpoint.index_ms > 0 and self._index.last_ms == 0
        summary = self._index.summary
        if known.index == NO_INDEX:
            reason = "it was switched off (messageIndexEnable)"
        elif known.index == DAMAGED_INDEX:
            reason = "it was found to be damaged"
        elif known.is_exact and clean and summary != known.index:
            reason = "it is not as it was at the last stop"
        elif summary[2] < known.index[2]:
            reason = f"it ends at {summary[2]}, it was {known.index[2]}"
        else:
            self._index.safe_physical = max(self._index.safe_physical, known.index[2])  # it was, and it is there
            return False
        _log.error("the key index is built again from the whole log: %s", reason)
        # Else a new file that a power cut leaves short would count as one that was safe.
        self._checkpoint.index_ms = Millis(0)
        self._distrust()
        self._index.destroy_all()
        return True

    # -- afterwards ----------------------------------------------------------------------------------------------------

    def _secure(self, clean: bool, first_walked: PhysicalOffset) -> None:
        """Sync the log, the queues and the index; after a crash only the log and the cuts of queues and index.

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
            self._late.then("queues and key index cannot be written", self._flush)

    def _flush(self) -> bool:
        self._table.flush()
        self._index.flush()
        return True

    def _note_safe(self, end: PhysicalOffset, first_walked: PhysicalOffset, *, clean: bool) -> None:
        """The checkpoint now says: the log is safe. Queues and index follow with the first thorough round.

        Records of the walk may have been put into queues just now, so queues are not safe behind its start.
        """
        checkpoint = self._checkpoint
        clean = clean and not self._late.are_open
        checkpoint.confirm_offset = end
        checkpoint.derived_offset = end if clean else min(first_walked, end)
        if self._replay.last_store_ms > 0:
            self._log.last_store_ms = self._replay.last_store_ms
            checkpoint.physic_ms = self._replay.last_store_ms
            if clean:
                checkpoint.logics_ms = self._replay.last_store_ms


def _used_bytes(mapped: LogFile, position: int) -> int:
    """Bytes of a file from `position` on, up to the last one that is not zero."""
    low, high = position, mapped.size
    while low < high:
        middle = (low + high) // 2
        if mapped.file.is_zero_from(middle):
            high = middle
        else:
            low = middle + 1
    return low - position
