"""One consume queue: the messages of one (topic, queue id) in order.

Owns        its entries, min and max offset, when its tail is written (tail.py), where it ends after a crash, which of
            its files are outdated.
Must not know   records, other queues, when queues are flushed.

Invariant: entry n lies at byte n * 20 of the queue, and belongs to the record with queue offset n.
Invariant: physical offsets rise from entry to entry; fillers count as below every physical offset.

Bytes: docs/internals/store_layout.md, "Consume queue".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.model.positions import EntryPosition, PhysicalOffset, QueueOffset
from rocketlake.store.consume_queue.begin import QueueBegin, is_sound
from rocketlake.store.consume_queue.entry import (
    ENTRY_SIZE,
    FILLER,
    is_filler,
    pack_entry,
    unpack_entries,
    valid_count,
)
from rocketlake.store.consume_queue.tail import QueueTail, Tails
from rocketlake.store.late_files import FileLate, LateFiles, NotSynced
from rocketlake.store.mapped_file import Bytes, MappedFile
from rocketlake.store.mapped_file_list import FlushJob, MappedFileList
from rocketlake.store.results import ColdPart

__all__ = ["BeganAnew", "ConsumeQueue", "Entry", "QueueFiles", "first_offset"]

_log = get_logger(__name__)
_rare = RareWarnings(_log)

_FIRST = QueueOffset(0)
_NOWHERE = PhysicalOffset(-1)
_RECOVER_FILES = 3  # as many as Apache reads
_CHUNK_ENTRIES = 4096
_RECORD_BYTES_MIN = 91
_TAIL_MAX = 32_000  # 1,600 entries to a write
_LATE_TAIL_MAX = 20 * _TAIL_MAX  # while a worker makes or opens the file
_COLD_BYTES = 64 * 1024  # read from a slow disk at once
_FIRST_CHUNK_ENTRIES = 256  # most queues of a large broker are short
QueueFiles = MappedFileList[EntryPosition]
"""The files of a queue."""
Entry = tuple[PhysicalOffset, int, int]
"""(physical offset, record size, tag code)."""
BeganAnew = Callable[[str, int, PhysicalOffset], object]
"""(topic, queue id, physical offset of its first record): the entries before it were of a deleted topic."""


class ConsumeQueue(QueueTail):
    """The entries of one queue. Queue offsets count entries; a physical offset is a byte position in the commit log."""

    __slots__ = (
        "_began_anew",
        "_late",
        "_list",
        "_min_offset",
        "_min_physical",
        "cuts",
        "given_out",
        "queue_id",
        "topic",
        "topic_name",
    )

    def __init__(
        self,
        topic: str,
        queue_id: int,
        mapped: QueueFiles,
        tails: Tails | None = None,
        began_anew: BeganAnew | None = None,
        late: LateFiles | None = None,
    ) -> None:
        """Without `tails` every entry is written at once; without `late` its files are made at once."""
        super().__init__(tails or Tails(0))
        self._late = late
        self.topic = topic
        self.topic_name = topic.encode("utf-8", "surrogateescape")
        """The topic as records name it."""
        self.queue_id = queue_id
        self._began_anew = began_anew
        self._list = mapped
        self.cuts = 0
        """How often readable entries were taken back or changed. A copy of entries is good while this number stays."""
        self.given_out = _FIRST
        """Offsets below it were given out before this start; a power cut may have taken their records."""
        self._min_offset = self._first_in_files
        self._min_physical = _NOWHERE  # the commit log's min that `_min_offset` was worked out for
        self._find_end()

    # -- reading -------------------------------------------------------------------------------------------------------

    @property
    def entries_per_file(self) -> int:
        """Entries in each of its files."""
        return self._list.file_size // ENTRY_SIZE

    @property
    def _first_in_files(self) -> QueueOffset:
        """The queue offset of the first entry of the oldest file; 0 without files."""
        return QueueOffset(self._list.min_offset // ENTRY_SIZE)

    @property
    def files(self) -> list[MappedFile[EntryPosition]]:
        """Its files, oldest first."""
        return self._list.files

    def read(self, offset: QueueOffset, count: int) -> list[Entry]:
        """Up to `count` entries from `offset`, all of one file; empty if there is none at `offset`."""
        return unpack_entries(self.packed(offset, count))

    def packed(self, offset: QueueOffset, count: int) -> Bytes:
        """The entries that `read` gives, as packed bytes."""
        found = self._packed(offset, count, wait=True)
        assert found is not None, "a read that waits gets its bytes"
        return found

    def packed_now(self, offset: QueueOffset, count: int) -> Bytes | None:
        """As `packed`, but None if the read would block."""
        return self._packed(offset, count, wait=False)

    def _packed(self, offset: QueueOffset, count: int, *, wait: bool) -> Bytes | None:
        position = EntryPosition(offset * ENTRY_SIZE)
        file_size = self._list.file_size
        wanted = min(count * ENTRY_SIZE, file_size - position % file_size)
        tail_start = self.max_offset * ENTRY_SIZE - len(self.tail)
        if position >= tail_start:
            return bytes(self.tail[position - tail_start : position - tail_start + wanted])
        mapped = self._list.find(position)
        if mapped is None or offset < 0:
            return b""
        pread = mapped.file.pread if wait else mapped.file.pread_now
        data = pread(min(wanted, mapped.start + mapped.committed - position), position - mapped.start)
        if data is not None and len(data) < wanted and mapped is self._list.last:  # the tail belongs to the last file
            return bytes(data) + self.tail[: wanted - len(data)]
        return data

    def cold_part(self, offset: QueueOffset) -> ColdPart:
        """What to read from disk when `packed_now` came back with None."""
        place = EntryPosition(offset * ENTRY_SIZE)
        mapped = self._list.find(place)
        assert mapped is not None, "there are entries"
        position = place - mapped.start
        return mapped.path, position, min(_COLD_BYTES, mapped.committed - position)

    def entry(self, offset: QueueOffset) -> Entry | None:
        """The entry at `offset`, None if there is none."""
        found = self.read(offset, 1)
        return found[0] if found else None

    @property
    def first_entry(self) -> Entry | None:
        """The first entry of its oldest file, None if there is none."""
        return self.entry(self._first_in_files)

    def next_file_offset(self, offset: QueueOffset) -> QueueOffset:
        """First queue offset of the file behind the one that would hold `offset`."""
        return offset + self.entries_per_file - offset % self.entries_per_file

    def min_offset(self, min_physical: PhysicalOffset) -> QueueOffset:
        """First queue offset whose record starts at or behind `min_physical`; equals `max_offset` when none does."""
        if min_physical != self._min_physical:
            self._min_offset = self._find_min(min_physical)
            self._min_physical = min_physical
        return self._min_offset

    def offset_at(self, physical_offset: PhysicalOffset) -> QueueOffset:
        """What `min_offset` will be when the log begins there; nothing is remembered."""
        return self._find_min(physical_offset)

    def _find_min(self, min_physical: PhysicalOffset) -> QueueOffset:
        low = max(self._min_offset, self._first_in_files)
        return QueueBegin(self.packed, self.max_offset, min_physical).find(low)

    def replace(self, offset: QueueOffset, physical_offset: PhysicalOffset, size: int, tag_code: int) -> None:
        """Write the entry at `offset` anew: it was damaged on disk. Raises OSError.

        It is not synced: a damaged entry that comes back is noticed again.
        """
        position = EntryPosition(offset * ENTRY_SIZE)
        mapped = self._list.find(position)
        if mapped is not None and position < self.max_offset * ENTRY_SIZE - len(self.tail):
            self.cuts += 1
            mapped.file.pwrite(pack_entry(physical_offset, size, tag_code), position - mapped.start)

    # -- appending -----------------------------------------------------------------------------------------------------

    def append(self, offset: QueueOffset, physical_offset: PhysicalOffset, size: int, tag_code: int) -> bool:
        """Append the entry of a record; False when it is there already (a record may be dispatched again).

        Of two records with one queue offset the later in the log is never dropped without a word. Number 0 begins a
        queue, so there it belongs to a topic made anew. Raises OSError or StoreError when the disk refuses.
        """
        if physical_offset + size <= self.max_physical_offset and offset < self.max_offset:
            return False
        if offset < self.max_offset and not self._begin_anew(offset, physical_offset):
            return False
        if offset - self.max_offset > self.entries_per_file and not self._may_follow(offset, physical_offset):
            return False
        if offset > self.max_offset:
            self._fill(offset)
        entry, end_physical = pack_entry(physical_offset, size, tag_code), physical_offset + size
        if not self.take_run(offset, entry, end_physical):
            self._append_new(entry, end_physical)
        if offset >= self.next_offset:
            self.next_offset = offset + 1
        return True

    def _begin_anew(self, offset: QueueOffset, physical_offset: PhysicalOffset) -> bool:
        """A record whose place is taken: is it the first one of a topic made anew? Then the old entries go.

        Our own deletions are noted: this is for one that a crash was faster than, or that another broker did. Raises
        OSError.
        """
        if offset:
            text = "queue %d of %s holds another message at %d, the record at %d of the log is passed over"
            _rare.error(f"taken {self.topic}", None, text, self.queue_id, self.topic, offset, physical_offset)
            return False
        _log.error(
            "queue %d of %s begins anew with the record at %d of the log: %d entries before it, of a topic that was"
            " deleted and made again, are dropped",
            self.queue_id,
            self.topic,
            physical_offset,
            self.max_offset,
        )
        self.clear()
        self._min_offset = self.given_out = _FIRST
        if self._began_anew is not None:
            self._began_anew(self.topic, self.queue_id, physical_offset)
        return True

    def _may_follow(self, offset: QueueOffset, physical_offset: PhysicalOffset) -> bool:
        """True if so many entries can be missing before this record: each of their records takes bytes of the log.

        Or it took them before a power cut, and this record was put in their place.
        """
        missing = offset - self.max_offset
        if (
            offset <= self.given_out
            or missing <= (physical_offset - max(0, self.max_physical_offset)) // _RECORD_BYTES_MIN
        ):
            return True
        text = "queue %d of %s ends at %d, but the record at %d of the log says %d, which cannot be: it is passed over"
        key = f"far {self.topic}"
        _rare.error(key, None, text, self.queue_id, self.topic, self.max_offset, physical_offset, offset)
        return False

    def append_run(self, offset: QueueOffset, entries: bytes, end_physical: PhysicalOffset) -> bool:
        """Append the entries of new records in a row, as `append` would one by one; False when all are there already.

        `end_physical` is the end of the last record. Raises OSError or StoreError when the disk refuses: a part of the
        run may be in then, and the whole run may be given again.
        """
        if self.take_run(offset, entries, end_physical):
            return True
        if offset != self.max_offset or int.from_bytes(entries[:8], "big") < self.max_physical_offset:
            return self._append_each(offset, entries)
        self._append_new(entries, end_physical)
        self.next_offset = max(self.next_offset, self.max_offset)
        return True

    def _append_new(self, entries: bytes, end_physical: PhysicalOffset) -> None:
        """Append entries for which the tail has no room: write the tail, begin a new file if need be, then take them.

        While a worker makes or opens the file, the tail may grow longer than usual. Raises FileLate at its limit.
        """
        done = 0
        while done < len(entries):
            try:
                self.write_tail()
                mapped = self._next_file()
            except FileLate:
                if not self._take_late(entries[done:], end_physical):
                    raise
                return
            piece = entries[done : done + mapped.room]
            done += len(piece)
            end = end_physical if done == len(entries) else _end_of_last(piece)
            self._set_tail_room()
            if not self.take_run(self.max_offset, piece, end):
                mapped.append(piece)
                self.max_offset += len(piece) // ENTRY_SIZE
                self.max_physical_offset = end
                self.next_offset = max(self.next_offset, self.max_offset)
                self._set_tail_room()

    def _take_late(self, entries: bytes, end_physical: PhysicalOffset) -> bool:
        """Take entries into the tail although no file for them is open; False if there are too many."""
        if len(self.tail) + len(entries) > _LATE_TAIL_MAX:
            return False
        self.tail_room = len(entries)
        is_taken = self.take_run(self.max_offset, entries, end_physical)
        self.tail_room = min(_TAIL_MAX, _LATE_TAIL_MAX - len(self.tail))
        return is_taken

    def _next_file(self) -> MappedFile[EntryPosition]:
        """The file that the next entry goes into. Raises FileLate, OSError, StoreError."""
        self._keep_old_files_flushed()
        mapped = self._list.file_for_append()
        self.tails.written[self] = None
        return mapped

    def write_tail(self) -> None:
        """Carry the tail into the file, or into several. Raises FileLate, OSError; it may be tried again."""
        while self.tail:
            mapped = self._next_file()
            size = min(len(self.tail), mapped.room)
            mapped.append(self.tail[:size])
            self.tail_written(size)
        self._set_tail_room()

    def _set_tail_room(self) -> None:
        last = self._list.last
        self.tail_room = 0 if last is None else min(_TAIL_MAX, last.room, self.tails.bytes_max)

    def _append_each(self, offset: QueueOffset, entries: bytes) -> bool:
        appended = False
        for number, entry in enumerate(unpack_entries(entries)):
            appended = self.append(offset + number, *entry) or appended
        return appended

    def _keep_old_files_flushed(self) -> None:
        """Before a new file is begun, all but the files that recovery reads must be safe. They nearly always are."""
        files = self._list.files
        if len(files) >= _RECOVER_FILES and files[-1].is_full:
            oldest = files[-_RECOVER_FILES]
            if oldest.flushed < oldest.size:
                if self._late is not None and self._late.is_serving:
                    raise NotSynced("older entries are not on disk yet", path=str(oldest.path))
                while self._list.flushed_offset < self._list.wrote_offset:
                    self._list.flush()

    def _fill(self, offset: QueueOffset) -> None:
        """Fillers up to `offset`: a queue starts in the middle of a file, or entries were lost."""
        self.write_tail()
        self.tails.written[self] = None
        target = EntryPosition(offset * ENTRY_SIZE)
        if not self._list.files:
            self._min_offset = offset
        try:
            self._list.file_for_append(target)
            while (gap := target - self._list.wrote_offset) > 0:
                mapped = self._list.file_for_append()
                mapped.append(FILLER * (min(gap, mapped.room) // ENTRY_SIZE))
        finally:
            self._find_end()

    # -- recovery ------------------------------------------------------------------------------------------------------

    def recover(self, *, all_flushed: bool, before_cut: Callable[[], object] = bool) -> bool:
        """Find the last written entry: the files were loaded as if they were full.

        `all_flushed` False: the last stop was not clean, so what is read may only lie in the page cache.
        True if entries were lost: sound ones lay behind the end, and were cut off after a call of `before_cut`.
        """
        is_torn = False
        files = self._list.files
        self._find_end()
        if files:
            first = max(0, len(files) - _RECOVER_FILES)  # see _keep_old_files_flushed
            if not all_flushed:
                for mapped in files[first:]:
                    mapped.flushed = 0
                self._list.flushed_offset = files[first].start
            end = files[first].start
            for mapped in files[first:]:
                count = _written_entries(mapped)
                end = mapped.start + count * ENTRY_SIZE
                if end < mapped.end:
                    break
            if self._list.ends_at(end):
                self._find_end()
            else:
                is_torn = any(_is_written_behind(mapped, end) for mapped in files[first:])
                if is_torn:
                    before_cut()
                self._cut(end, safe=not all_flushed or is_torn)
        self._drop_fillers()
        self._tail_moved()
        return is_torn

    def is_whole(self) -> bool:
        """True if every entry up to the end was written. Reads all entries; `recover` looks at the last files only."""
        self.write_tail()
        end = self.max_offset * ENTRY_SIZE
        return all(
            _written_entries(mapped) * ENTRY_SIZE >= min(mapped.size, end - mapped.start) for mapped in self.files
        )

    def clear(self) -> None:
        """Forget all entries, for good: they will be built from the log again. Raises OSError."""
        self.cuts += 1
        last = self._list.last
        self.destroy()
        if last is not None:
            last.files.sync_dir(last.path.parent)
        self._find_end()
        self._tail_moved()

    def reach(self, offset: QueueOffset) -> bool:
        """Fill up to a queue offset that the queue had once: offsets that were given out are never given out again.

        False if it reaches so far. Raises OSError, StoreError.
        """
        if offset <= self.max_offset:
            return False
        self._fill(offset)
        self.next_offset = max(self.next_offset, self.max_offset)
        return True

    def truncate_after(self, physical_offset: PhysicalOffset, *, safe: bool = True) -> FlushJob[EntryPosition] | None:
        """Forget the entries whose record starts at or behind `physical_offset`: the log is cut there.

        With `safe` False no power cut may come before the job is done that is given back; None: nothing was cut.
        """
        self.write_tail()
        end = self.max_offset
        start = self._first_in_files
        while end > start and (entry := self.entry(end - 1)) is not None:
            if entry[0] < physical_offset:
                break
            end -= 1
        is_cut = end < self.max_offset
        if is_cut:
            self._cut(EntryPosition(end * ENTRY_SIZE), safe=safe)
            self._drop_fillers(safe=safe)
        self._tail_moved()
        last = self._list.last
        return FlushJob(self._list, [(last, last.committed)]) if is_cut and last is not None else None

    def ends_in_log(self, min_physical: PhysicalOffset) -> None:
        """A newest record that has expired ends before the log's begin, whatever its entry says of its size.

        A size that is too large would make every new record look as if it were in the queue already.
        """
        last = self.entry(self.max_offset - 1)
        if last is not None and last[0] < min_physical:
            self.max_physical_offset = min(self.max_physical_offset, min_physical)

    def cut_end(self, is_sound: Callable[[Entry], bool]) -> list[Entry]:
        """Forget the newest entries down to the newest sound one; those it had, newest first. Raises OSError."""
        self.write_tail()
        cut: list[Entry] = []
        end = self.max_offset
        start = self._first_in_files
        while end > start and (entry := self.entry(end - 1)) is not None and not is_sound(entry):
            cut.append(entry)
            end -= 1
        if cut:
            self._cut(EntryPosition(end * ENTRY_SIZE))
            self._drop_fillers()
            self._tail_moved()
        return cut

    def _drop_fillers(self, *, safe: bool = True) -> None:
        """Fillers with no entry behind them are left of a write that was cut off."""
        end = self.max_offset
        start = self._first_in_files
        kept = end
        while kept > start and (entry := self.entry(kept - 1)) is not None and is_filler(entry[0], entry[1]):
            kept -= 1
        if kept < end:
            self._cut(EntryPosition(kept * ENTRY_SIZE), safe=safe)

    def _cut(self, position: EntryPosition, *, safe: bool = True) -> None:
        """Forget what lies behind `position`. `safe`: on disk, too, so that no power cut brings it back."""
        self.cuts += 1
        self._list.truncate(position)
        self._find_end()
        last = self._list.last
        if safe and last is not None:
            last.file.sync()

    def _find_end(self) -> None:
        """Set what follows from where the files end; there is no tail."""
        self.max_offset = QueueOffset(self._list.wrote_offset // ENTRY_SIZE)
        self._set_tail_room()

    def _tail_moved(self) -> None:
        last = self.entry(self.max_offset - 1)
        self.max_physical_offset = _NOWHERE if last is None else last[0] + last[1]
        self.next_offset = self.max_offset
        self._min_offset = min(max(self._min_offset, self._first_in_files), self.max_offset)
        self._min_physical = _NOWHERE

    # -- flushing and dropping -----------------------------------------------------------------------------------------

    @property
    def flushed_count(self) -> QueueOffset:
        """Queue offset up to which entries are safe; 0 without files."""
        return QueueOffset(self._list.flushed_offset // ENTRY_SIZE if self._list.files else 0)

    @property
    def file_end(self) -> int:
        """Queue offset up to which entries are in files."""
        return self.max_offset - len(self.tail) // ENTRY_SIZE

    @property
    def is_flushed(self) -> bool:
        """True when every entry is safe."""
        return not self.tail and self._list.flushed_offset >= self._list.wrote_offset

    def to_flush(self, least_pages: int) -> FlushJob[EntryPosition] | None:
        """The sync that is due now; None if too little was written, or a sync failed before."""
        return self._list.to_flush(least_pages)

    def flush(self) -> None:
        """Sync everything on this thread. Raises StoreError."""
        while not self.is_flushed:
            try:
                self.write_tail()
            except FileLate:
                if self._list.flushed_offset >= self._list.wrote_offset:
                    raise
            while self._list.flushed_offset < self._list.wrote_offset:
                self._list.flush()

    def drop_before(self, min_physical: PhysicalOffset) -> list[MappedFile[EntryPosition]]:
        """Take out the files of which nothing can be read any more, never the last; closed, to be removed."""
        dropped = self._list.drop_before(EntryPosition(self.min_offset(min_physical) * ENTRY_SIZE))
        for mapped in dropped:
            with contextlib.suppress(OSError):  # it is taken out, and the worker that removes it closes it as well
                mapped.close()
        return dropped

    def abandon(self) -> None:
        """Forget all entries; the caller deletes the files. A reader that still holds this queue finds it empty."""
        if self._late is not None:
            self._late.forget_below(self._list.folder)
        self.drop_tail()
        self.tail_room = 0
        self.tails.written.pop(self, None)
        self._list.abandon()
        self.max_offset = _FIRST

    def destroy(self) -> None:
        """Remove all files. Raises OSError."""
        self.drop_tail()
        self._list.destroy()

    def close(self) -> None:
        """Close all files; entries of a tail that was not written are in the log only."""
        self._list.close()


def first_offset(holds: Callable[[QueueOffset], bool], low: QueueOffset, high: QueueOffset) -> QueueOffset:
    """The first offset in [low, high) for which a condition holds that, once true, stays true; `high` if none."""
    while low < high:
        middle = low + (high - low) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _end_of_last(entries: bytes) -> PhysicalOffset:
    """Where the record of the last of some entries ends."""
    physical_offset, size, _tag_code = unpack_entries(entries[-ENTRY_SIZE:])[0]
    return physical_offset + size


def _written_entries(mapped: MappedFile[EntryPosition]) -> int:
    """How many entries a file holds, by reading it until the first that was never written."""
    count = 0
    wanted = _FIRST_CHUNK_ENTRIES
    while True:
        data = mapped.file.pread(min(wanted * ENTRY_SIZE, mapped.size - count * ENTRY_SIZE), count * ENTRY_SIZE)
        found = valid_count(data)
        count += found
        if not data or found * ENTRY_SIZE < len(data):
            return count
        wanted = _CHUNK_ENTRIES


def _is_written_behind(mapped: MappedFile[EntryPosition], end: int) -> bool:
    """True if a sound entry of a record lies in this file behind `end`. Only for a file that is not zero there."""
    position = max(0, end - mapped.start)
    while position < mapped.size and not mapped.file.is_zero_from(position):
        data = mapped.file.pread(min(_CHUNK_ENTRIES * ENTRY_SIZE, mapped.size - position), position)
        if data.strip(b"\0") and any(is_sound(entry[0], entry[1]) for entry in unpack_entries(data)):
            return True
        position += len(data)
    return False
