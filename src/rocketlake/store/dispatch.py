"""Follow the commit log: build consume queues and key index, tell that messages have arrived.

Owns        how far the log is dispatched; the order queue, index, arrival.
Must not know   how records are appended or flushed, which requests wait for arrivals.

Invariant: every record below `position` is in its queue and in the index. Dispatch stays at a record whose entries
could not be written, and tries it again.

Two ways lead to the same bytes: `appended` and `appended_run` remember the fields of records just written, so `run`
need not read them again; everything else (recovery, write pool, replication) is scanned from the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rocketlake.base.clock import Millis
from rocketlake.base.disk.seam import is_no_room
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.consume_queue.queue import ConsumeQueue
from rocketlake.store.consume_queue.table import BadQueueName, ConsumeQueueTable
from rocketlake.store.deletions import Deletions
from rocketlake.store.dispatch_scan import BAD_LENGTH, BLANK, END, DispatchEntry, scan
from rocketlake.store.key_index.files import KeyIndex
from rocketlake.store.late_files import FileLate
from rocketlake.store.mapped_file import LogFile
from rocketlake.store.mapped_file_list import LogFiles

if TYPE_CHECKING:
    from typing import TypeAlias

    from rocketlake.codec import record_run
    from rocketlake.store import raw_run
    from rocketlake.store.entry_run import EntryRun

    Run: TypeAlias = record_run.RecordRun | EntryRun | raw_run.RawRun

__all__ = ["Arrival", "Dispatch", "perhaps"]

Arrival = Callable[[str, int, QueueOffset, int, Millis], None]
"""(topic, queue id, new max offset, tag code, store ms)."""

_log = get_logger(__name__)

# The most that one slice does: some milliseconds of a turn.
_SLICE_BYTES = 64 * 1024
_SLICE_RECORDS = 256
_FIRST = QueueOffset(0)
_APPENDED_MAX = 10_000


class Dispatch:
    """Brings queues and index up to a physical offset, a bounded piece of work at a time."""

    def __init__(
        self,
        log: LogFiles,
        table: ConsumeQueueTable,
        index: KeyIndex | None,
        deletions: Deletions,
        delays_ms: Sequence[int] = (),
    ) -> None:
        """`delays_ms[k - 1]` is the delay of level k; `index` None builds no key index."""
        self.on_arrival: Arrival | None = None
        self.is_awaited: Callable[[str, int], bool] = perhaps
        """(topic, queue id): true if a request waits at this queue. A run asks once, to skip `on_arrival`."""
        self.has_wrong_number: Callable[[DispatchEntry, QueueOffset], bool] = _never
        """(record found by a walk, the number expected of it): true if its own number, another one, is damaged."""
        self.position = PhysicalOffset(0)
        """Physical offset up to which everything is dispatched."""
        self.last_store_ms = Millis(0)
        """Store time of the last record dispatched."""
        self.error = ""
        """Why the record at `position` could not be dispatched; "" while all is well."""
        self.waits_for_index = False
        """The index is not loaded: nothing can be dispatched."""
        self.late: FileLate | None = None
        """The file that the record at `position` waits for, which a worker makes or opens; then `run` again."""
        self.behind: PhysicalOffset | None = None
        """The first record that a full disk kept out of its queue or the index in the walk of a start."""
        self._no_room_for: set[str] = set()
        self._log_files = log
        self._table = table
        self._index = index
        self._deletions = deletions
        self._delays_ms = delays_ms
        self._appended: deque[DispatchEntry | Run] = deque()
        self._warnings = RareWarnings(_log)

    # -- the short way -------------------------------------------------------------------------------------------------

    def appended(self, entry: DispatchEntry, *, readable: bool = False) -> None:
        """A record was just appended (its `appended_entry`): dispatch it if it is `readable` and the next in turn.

        Else it is remembered, and `run` dispatches it when it may be read.
        """
        if readable and entry.physical_offset == self.position and not self._appended and self._dispatched(entry):
            return
        if len(self._appended) >= _APPENDED_MAX:
            self._appended.clear()  # no dispatch for long: the records will be scanned from the log
        self._appended.append(entry)

    def appended_run(self, run: Run, *, readable: bool = False) -> None:
        """The same for a run of records that were appended together."""
        if readable and run.physical_offset == self.position and not self._appended and self._dispatched(run):
            return
        if len(self._appended) >= _APPENDED_MAX:
            self._appended.clear()
        self._appended.append(run)

    def _dispatched(self, entry: DispatchEntry | Run) -> bool:
        try:
            self._dispatch_any(entry)
        except (OSError, StoreError):
            return False  # the next `run` tries again, and sets `error`
        return True

    # -- the work ------------------------------------------------------------------------------------------------------

    def run(self, limit: PhysicalOffset, *, slices: int = 2) -> bool:
        """Dispatch up to physical offset `limit` in at most so many slices; True when there is more to do.

        A disk that refuses is no exception here: `error` says why, and the next run tries again. Nor is a file that is
        late: `late` names it then.
        """
        if self.waits_for_index:
            return False
        limit = min(limit, self._log_files.max_offset)
        before, self.error = self.error, ""
        self.late = None
        try:
            while slices > 0 and self.position < limit:
                slices -= 1
                if not self._dispatch_appended(limit) and not self._scan_slice(limit):
                    return False
        except FileLate as late:
            self.error, self.late = before, late
            return False
        except (OSError, StoreError) as error:
            self.error = str(error)
            self._warnings.warn("disk", "cannot dispatch the record at %d: %s", self.position, error)
            return True
        return self.position < limit

    def run_all(self, limit: PhysicalOffset) -> None:
        """Dispatch up to `limit` in one go (recovery, stop). Raises StoreError when the disk refuses."""
        while self.run(limit, slices=64):
            if self.error:
                raise StoreError(f"cannot dispatch: {self.error}", path=str(self._table.folder), offset=self.position)

    def _dispatch_appended(self, limit: PhysicalOffset) -> bool:
        """Dispatch a slice of remembered records; False when the one at `position` is not remembered."""
        appended = self._appended
        done = 0
        while appended and done < _SLICE_RECORDS:
            entry = appended[0]
            if entry.physical_offset < self.position:
                appended.popleft()
            elif entry.physical_offset == self.position and entry.physical_offset + entry.size <= limit:
                if not isinstance(entry, DispatchEntry):
                    self._find_queues(entry)
                    self._dispatch_run(entry)
                    done += len(entry) - 1
                elif self._is_dead(entry):
                    self._pass_dead(entry)
                else:
                    self._dispatch(entry)
                appended.popleft()
                done += 1
            else:
                break
        return done > 0

    def _scan_slice(self, limit: PhysicalOffset) -> bool:
        """Dispatch one slice of the log; False when nothing whole starts at `position` yet."""
        mapped = self._log_files.find(max(self.position, self._log_files.min_offset))
        if mapped is None:
            return False
        self.position = max(self.position, mapped.start)
        readable = min(limit - mapped.start, mapped.committed)
        start = self.position - mapped.start
        end = min(readable, start + _SLICE_BYTES)
        entries, taken, status = self._scan(mapped, start, end)
        if status == END and taken == 0 and end < readable:  # one record longer than a slice
            size = int.from_bytes(mapped.view[start : start + 4], "big")
            entries, taken, status = self._scan(mapped, start, min(readable, start + size))
        for entry in entries:
            if self._is_dead(entry):
                self._pass_dead(entry)
            elif self.behind is not None and not self._is_missing(entry):
                self._put_keys(entry)
                self._pass_dead(entry)
            else:
                self._dispatch(entry)
        if status == END and (taken > 0 or readable < mapped.size):
            return taken > 0
        self._pass_by(mapped, start + taken, readable, status)
        return True

    def _scan(self, mapped: LogFile, start: int, end: int) -> tuple[list[DispatchEntry], int, int]:
        view = mapped.read(start, min(end, mapped.readable) - start)
        if view is None:
            return [], 0, END
        return scan(view, mapped.start + start, False, self._delays_ms)

    def _pass_by(self, mapped: LogFile, position: int, readable: int, status: int) -> None:
        """Go on behind bytes that are no record: a blank ends its file, damage is passed over as its size says."""
        if status == BLANK:
            self.position = mapped.end
            return
        damaged = mapped.start + position
        self.position = mapped.start + readable
        if status == BAD_LENGTH:
            self.position = min(self.position, damaged + int.from_bytes(mapped.view[position : position + 4], "big"))
        self._warnings.warn(
            "damage", "no sound record at %d of the commit log: passed by up to %d", damaged, self.position
        )

    def cut(self, end: PhysicalOffset) -> None:
        """The log is cut at `end`: no record behind it is dispatched any more."""
        self.position = min(self.position, end)
        kept = [entry for entry in self._appended if entry.physical_offset + entry.size <= end]
        self._appended = deque(kept)  # a run that reaches over the end goes as a whole: the log has its first records

    # The next methods are for the walk of a start. Queues and index take records in the order of the log. So when a
    # full disk has no room for one record, no later one goes in; `run` brings them later, from `behind` on.

    def begin_rebuild(self, start: PhysicalOffset) -> None:
        """A walk over the log begins at this physical offset."""
        self.behind = start if self.waits_for_index else None
        self._no_room_for = {"index"} if self.waits_for_index else set()
        self.error = ""

    def rebuild(self, entries: Sequence[DispatchEntry]) -> None:
        """Put records found by the walk into queues and index, quietly. Raises OSError, StoreError."""
        for entry in entries:
            if not self._is_dead(entry):
                if "queues" not in self._no_room_for and self._is_missing(entry):
                    self._with_room("queues", self._enqueue, entry)
                self.rebuild_keys(entry)
                self.last_store_ms = entry.store_ms

    def rebuild_keys(self, entry: DispatchEntry) -> None:
        """Put a record found by the walk into the index only. Raises OSError, StoreError."""
        self._with_room("index", self._put_keys, entry)

    def _with_room(self, part: str, put: Callable[[DispatchEntry], object], entry: DispatchEntry) -> None:
        if part in self._no_room_for:
            return
        try:
            put(entry)
        except OSError as error:
            if not is_no_room(error):
                raise
            self._no_room_for.add(part)
            self.behind = entry.physical_offset if self.behind is None else min(self.behind, entry.physical_offset)
            self.error = str(error)

    def _is_missing(self, entry: DispatchEntry) -> bool:
        """True if its queue lacks this record. A queue that holds a later record of the log lacks none before that."""
        queue = self._table.find(entry.topic, entry.queue_id)
        if queue is not None and entry.physical_offset + entry.size <= queue.max_physical_offset:
            return False
        expected = _FIRST if queue is None else queue.max_offset
        return entry.queue_offset == expected or not entry.is_queued() or not self.has_wrong_number(entry, expected)

    # A topic may be deleted while records of it wait to be dispatched. Then they belong into no queue, also not into
    # the queues of the same name that the next message makes.

    def _is_dead(self, entry: DispatchEntry) -> bool:
        return entry.physical_offset < self._deletions.until and self._deletions.is_dead(
            entry.topic, entry.physical_offset, entry.queue_id
        )

    def _pass_dead(self, entry: DispatchEntry) -> None:
        self.last_store_ms = entry.store_ms
        self.position = entry.physical_offset + entry.size

    def _find_queues(self, run: Run) -> None:
        """The queues of a run that has waited: those it was numbered for, or none where the topic was deleted since."""
        first, deletions, find_or_make = run.physical_offset, self._deletions, self._table.find_or_make
        if first >= deletions.until:
            return

        def find(topic: str, queue_id: int) -> ConsumeQueue | None:
            return None if deletions.is_dead(topic, first, queue_id) else find_or_make(topic, queue_id)

        run.find_queues(find)

    def _dispatch_any(self, entry: DispatchEntry | Run) -> None:
        if isinstance(entry, DispatchEntry):
            self._dispatch(entry)
        else:
            self._dispatch_run(entry)

    def _dispatch_run(self, run: Run) -> None:
        """All records of a run, by one call for each queue; after an error it may be given again."""
        touched = run.entries()
        if run.physical_offset < self._deletions.until:
            touched = [part for part in touched if part[0] is not None]
        append_run = self._table.append_run
        for queue, offset, entries, end_physical in touched:
            append_run(queue, offset, entries, end_physical)
        if self._index is not None:
            for pairs, store_ms in run.key_stretches():
                self._index.put_run(pairs, store_ms)
        self.last_store_ms = run.store_ms
        self.position = run.physical_offset + run.size
        if self.on_arrival is None:
            return
        is_awaited = self.is_awaited
        for queue, _offset, _entries, _end in touched:
            if is_awaited(queue.topic, queue.queue_id):
                for max_offset, tag_code in run.arrivals(queue.topic, queue.queue_id):
                    self.on_arrival(queue.topic, queue.queue_id, max_offset, tag_code, run.store_ms)

    def _dispatch(self, entry: DispatchEntry) -> None:
        is_queued = self._build(entry)
        self.position = entry.physical_offset + entry.size
        if is_queued and self.on_arrival is not None:
            self.on_arrival(entry.topic, entry.queue_id, entry.queue_offset + 1, entry.tag_code, entry.store_ms)

    def _build(self, entry: DispatchEntry) -> bool:
        """Put one record into its queue and the index; False if it belongs into no queue."""
        is_queued = self._enqueue(entry)
        self._put_keys(entry)
        self.last_store_ms = entry.store_ms
        return is_queued

    def _enqueue(self, entry: DispatchEntry) -> bool:
        is_queued = entry.is_queued()
        if is_queued:
            try:
                self._table.append(
                    entry.topic, entry.queue_id, entry.queue_offset, entry.physical_offset, entry.size, entry.tag_code
                )
            except BadQueueName as error:  # a log from elsewhere; one such record must not stop all that follow
                self._warnings.warn("name", "the record at %d is in no queue: %s", entry.physical_offset, error)
        return is_queued

    def _put_keys(self, entry: DispatchEntry) -> None:
        if self._index is not None and entry.is_indexed():
            self._index.put(entry.index_keys(), entry.physical_offset, entry.store_ms)


def perhaps(_topic: str, _queue_id: int) -> bool:
    """The test of arrivals while no listener gave a better one."""
    return True


def _never(_entry: DispatchEntry, _expected: QueueOffset) -> bool:
    """Until recovery sets its check."""
    return False
