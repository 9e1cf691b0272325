"""All key index files of a store: the newest is written, all are searched.

Owns        which file is written, its name, rolling to the next, expiry, up to which record the index is safe.
Must not know   the bytes of a file, records.

Invariant: files are in the order of their names and of their physical offsets.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from rocketlake.base.clock import Clock, Millis
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import get_logger
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.disk_wait import DiskWait
from rocketlake.store.key_index.file import SLOTS_WAITING_MAX, KeyIndexFile
from rocketlake.store.key_index.layout import file_size, key_hash
from rocketlake.store.late_files import LateFiles

__all__ = ["KeyIndex", "KeyIndexFlush", "index_names"]

_log = get_logger(__name__)

_NO_LIMIT = PhysicalOffset(2**63 - 1)
_START = PhysicalOffset(0)
_NOWHERE = PhysicalOffset(-1)
_EMPTY = (0, 0, _NOWHERE)


def index_names(folder: Path, files: Files) -> list[str]:
    """Names of the index files of a folder, oldest first; other names are passed over, as Apache does."""
    return [name for name in files.list_dir(folder) if name.isascii() and name.isdigit()]


class KeyIndexFlush:
    """One sync of index files: `run` on a worker, then `done` or `failed` on the loop, as with a FlushJob."""

    def __init__(self, owner: KeyIndex, files: Sequence[KeyIndexFile]) -> None:
        self._owner = owner
        self._cuts = owner.cuts
        self._files = [(file, file.count) for file in files]
        self._end_ms = owner.last_ms
        self.end_physical = owner.last_physical_offset
        """Physical offset of the newest entry that is safe when this is done."""

    def run(self) -> None:
        """Sync. Raises OSError."""
        for file, _count in self._files:
            try:
                file.file.sync()
            except (OSError, ValueError):
                if not file.closed:  # retention took it out meanwhile, then nobody asks for its entries
                    raise

    def done(self) -> None:
        """The entries that had been put when the job was made are safe, unless they were cut meanwhile."""
        if self._cuts == self._owner.cuts:
            self._owner.synced(self._files, self._end_ms, self.end_physical)

    def failed(self, error: Exception) -> None:
        """Nothing more is promised about the index until the next start."""
        self._owner.sync_error = f"sync of the key index failed: {error}"


class KeyIndex:
    """The index over all messages. Keys are texts "topic#key"."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        clock: Clock,
        *,
        slots: int = 5_000_000,
        entries_max: int = 20_000_000,
        slots_waiting_max: int = SLOTS_WAITING_MAX,
        late: LateFiles | None = None,
        wait: DiskWait | None = None,
    ) -> None:
        """Without `late` a new file is made at once; without `wait` a search waits for the disk."""
        self.folder = folder
        self.files: list[KeyIndexFile] = []
        self.safe_ms = Millis(0)
        """Store time of the last entry that is safe on disk; goes into the checkpoint."""
        self.safe_physical = _NOWHERE
        """Physical offset of the newest entry known to be safe: the next start finds it even after a power cut."""
        self.sync_error = ""
        self.cuts = 0
        """How often entries at its end were taken back."""
        self.on_damage: Callable[[Path, str], object] = _nobody_minds
        """(path, damage): a search met damage. The search goes on in the other files."""
        self._disk = files
        self._clock = clock
        self._slots = slots
        self._entries_max = entries_max
        self._slots_waiting_max = slots_waiting_max
        self._late = late or LateFiles()
        self._wait = wait or DiskWait()
        self._next: Path | None = None
        """The file that was asked for, to be the next one."""
        self._first: KeyIndexFile | None = None
        """The first file of all, made before the store serves."""
        self._not_synced: list[KeyIndexFile] = []

    # -- loading -------------------------------------------------------------------------------------------------------

    def load(self, *, last_exit_ok: bool, index_ms: Millis, before_cut: Callable[[], object] = bool) -> None:
        """Open the files; after an unclean stop mend those that were not safe at the checkpoint's `index_ms`.

        Apache deletes them instead, and with them what it does not dispatch again. If one that was safe is too short
        now, all are removed after a call of `before_cut`: the index is built again. Raises OSError, StoreError.
        """
        self._forget()  # an earlier try may have loaded files before the disk was full
        self.safe_ms = index_ms
        try:
            self._load(last_exit_ok, index_ms, before_cut)
        except OSError:
            self._forget()  # a full disk; it may be tried again
            raise

    def _forget(self) -> None:
        self._not_synced.clear()
        while self.files:
            self.files.pop().close()

    def _load(self, last_exit_ok: bool, index_ms: Millis, before_cut: Callable[[], object]) -> None:
        names = index_names(self.folder, self._disk)
        whole = file_size(self._slots, self._entries_max)
        sizes = [self._disk.size(self.folder / name) for name in names]
        if sizes and not sizes[-1]:
            # A power cut may bring the name of an unused file back. If it had keys, `queueEnds` tells that they lack.
            self._disk.remove(self.folder / names.pop())
            sizes.pop()
        keep = next((at for at, size in enumerate(sizes) if size < whole), len(names))
        if keep < len(names) and (last_exit_ok or (keep == 0 and index_ms > 0)):
            self._check_settings(self.folder / names[keep], sizes)
            before_cut()
            keep = 0
        # Else a crash left it shorter than it was made, and it was never safe. Several can be short: files are synced
        # by interval, and small ones fill up faster than that.
        for name in names[keep:]:
            self._disk.remove(self.folder / name)
        for name in names[:keep]:
            self.files.append(self._open(name))
        if last_exit_ok:
            self.safe_physical = self.last_physical_offset
        else:
            if self.files:
                self._sync_names()  # a broker that was killed may not have come to that
            # The last one always: its header may be older than its slots.
            first = next((at for at, file in enumerate(self.files) if file.end_ms >= index_ms), len(self.files) - 1)
            self._mend(self.files[max(first, 0) :], _NO_LIMIT)
            self._drop_empty()

    def _drop_empty(self) -> None:
        """Remove newest files without an entry.

        One that a kill left without a header would say that nothing was indexed yet, and all would be put again.
        """
        empty: list[KeyIndexFile] = []
        while self.files and self.files[-1].is_empty:
            empty.append(self.files.pop())
        for file in empty:
            self._not_synced = [known for known in self._not_synced if known is not file]
            file.remove()
        if empty:
            self._disk.sync_dir(self.folder)

    def _check_settings(self, short: Path, sizes: Sequence[int]) -> None:
        """Raises StoreError for a file that is too short, unless another one shows that the settings are right."""
        whole = file_size(self._slots, self._entries_max)
        if whole not in sizes:
            raise StoreError(
                f"the file has {self._disk.size(short)} bytes, the settings ask for {whole}",
                path=str(short),
                hint="start with the maxHashSlotNum and maxIndexNum the store was made with; if those are these, remove"
                f" the folder {self.folder}: it is built again from the log",
            )
        _log.error("%s has %d bytes of %d: the key index is made again", short, self._disk.size(short), whole)

    def _open(self, name: str) -> KeyIndexFile:
        return KeyIndexFile(
            self._disk,
            self.folder / name,
            slots=self._slots,
            entries_max=self._entries_max,
            slots_waiting_max=self._slots_waiting_max,
            wait=self._wait,
        )

    def _mend(self, files: Sequence[KeyIndexFile], end_physical: PhysicalOffset) -> None:
        for file in files:
            file.mend(end_physical)
            self._changed(file)
            if not file.is_full:
                # The lost entries will be dispatched again, and those of later files behind them: later files must go.
                removed = self._cut_behind(file)
                for later in removed:
                    later.remove()
                if removed:
                    self._disk.sync_dir(self.folder)
                return

    def _cut_behind(self, file: KeyIndexFile) -> list[KeyIndexFile]:
        keep = self.files.index(file) + 1
        later, self.files = self.files[keep:], self.files[:keep]
        self._not_synced = [known for known in self._not_synced if known not in later]
        return later

    # -- putting -------------------------------------------------------------------------------------------------------

    def put(self, keys: Sequence[str], physical_offset: PhysicalOffset, store_ms: Millis) -> None:
        """Add the keys of one record that are not in yet: it may be dispatched again. Raises OSError, StoreError."""
        if not keys or physical_offset < self.last_physical_offset:
            return  # after a crash a hundred thousand records may come for their queues only
        pairs = array("q")
        for key in keys:
            pairs.append(key_hash(key))
            pairs.append(physical_offset)
        self.put_run(pairs, store_ms)

    def put_run(self, pairs: array[int], store_ms: Millis) -> None:
        """Add the keys of records in log order: `pairs` holds the key_hash and the physical offset of each.

        What is in already is passed over. Raises OSError, StoreError; then the run may be given again.
        """
        if len(pairs) and pairs[1] <= self.last_physical_offset:
            pairs = self._not_in_yet(pairs)
        at = 0
        while at < len(pairs):
            file = self._file_with_room()
            self._changed(file)  # before: a run that fails half-way has changed it, too
            at = file.put_run(pairs, at, store_ms)

    def _not_in_yet(self, pairs: array[int]) -> array[int]:
        """Without records before the newest, and without the keys that the newest has: perhaps not all of them."""
        last_physical = self.last_physical_offset
        known = self._hashes_of_last()
        kept = array("q")
        for at in range(0, len(pairs), 2):
            hash_code, physical_offset = pairs[at], pairs[at + 1]
            if physical_offset > last_physical or (physical_offset == last_physical and hash_code not in known):
                kept.append(hash_code)
                kept.append(physical_offset)
        return kept

    def _hashes_of_last(self) -> set[int]:
        """The hashes of the newest record; its entries may lie in more than one file."""
        last_physical = self.last_physical_offset
        known: set[int] = set()
        for file in reversed(self.files):
            if file.end_physical != last_physical:
                break
            known |= file.last_hashes()
        return known

    def _changed(self, file: KeyIndexFile) -> None:
        if not self._not_synced or self._not_synced[-1] is not file:
            self._not_synced.append(file)

    def _file_with_room(self) -> KeyIndexFile:
        last = self.files[-1] if self.files else None
        if last is not None and not last.is_full:
            if self._late.is_serving and self._next is None and last.count * 4 > self._entries_max * 3:
                self._ask_ahead(last)
            return last
        if last is not None:
            last.write_out()
        file = self._take_next(last)
        if last is not None:
            file.follow(last)
        self.files.append(file)
        return file

    def _take_next(self, last: KeyIndexFile | None) -> KeyIndexFile:
        """The file behind `last`. Raises FileLate while a worker makes it; OSError, StoreError."""
        if self._first is not None:
            file, self._first = self._first, None
            return file
        path = self._next = self._next or self.folder / self._new_name(last)
        file = self._late.take(path, lambda: self._make(path.name))
        self._next = None
        return file

    def make_first(self) -> None:
        """Make the file for the first message of all, on this thread. Raises OSError, StoreError."""
        if not self.files and self._first is None:
            self._first = self._make(self._new_name(None))

    def _ask_ahead(self, last: KeyIndexFile) -> None:
        """Have the worker make the next file before it is needed."""
        path = self._next = self.folder / self._new_name(last)
        self._late.ask(path, lambda: self._make(path.name))

    def _make(self, name: str) -> KeyIndexFile:
        """Blocking. Raises OSError, StoreError."""
        self._disk.make_dirs(self.folder)
        try:
            file = self._open(name)
            # At once: else a power cut may keep a name and lose one before it, and the gap would not be seen.
            self._sync_names()
        except OSError:
            # A full disk leaves a name without content, and the next try has another name.
            with contextlib.suppress(OSError):
                self._disk.remove(self.folder / name)
            raise
        return file

    def remove_unused(self) -> None:
        """Remove the next file if it was made and never used (stop). Raises OSError."""
        if self._first is not None:
            self._first.remove()
            self._first = None
        path, self._next = self._next, None
        if path is not None and self._disk.exists(path):
            self._disk.remove(path)

    def _new_name(self, last: KeyIndexFile | None) -> str:
        """The local time to the millisecond; names rise even when the clock is set back, their order is the files'."""
        now_ms = self._clock.now_ms()
        name = int(datetime.fromtimestamp(now_ms // 1000).strftime("%Y%m%d%H%M%S") + f"{now_ms % 1000:03d}")
        if last is not None:
            name = max(name, int(last.path.name) + 1)
        return f"{name:017d}"

    # -- finding -------------------------------------------------------------------------------------------------------

    def find(self, key: str, max_count: int, begin_ms: Millis, end_ms: Millis) -> list[PhysicalOffset]:
        """Physical offsets of up to `max_count` records, newest first, stored from `begin_ms` to `end_ms`.

        Times count in whole seconds from the start of a file; other keys with the same hash may be among the hits.
        """
        hash_code = key_hash(key)
        found: list[PhysicalOffset] = []
        for file in reversed(self.files):
            if not file.is_empty and file.overlaps(begin_ms, end_ms):
                known = found[-1] if found else _NOWHERE
                found += file.find(hash_code, max_count - len(found), begin_ms, end_ms, known=known)
                if file.damage:
                    self.on_damage(file.path, file.damage)
            if file.begin_ms < begin_ms or len(found) >= max_count:
                break
        return found

    @property
    def last_ms(self) -> Millis:
        """Store time of the newest entry, 0 without one."""
        return self.files[-1].end_ms if self.files else Millis(0)

    @property
    def last_physical_offset(self) -> PhysicalOffset:
        """Physical offset of the newest entry, 0 without one."""
        return self.files[-1].end_physical if self.files else _START

    @property
    def summary(self) -> tuple[int, int, PhysicalOffset]:
        """(files, sum of their counts, physical offset of the newest entry or -1), to be compared at the next start."""
        if not self.files:
            return _EMPTY
        last = self.files[-1].end_physical
        return len(self.files), sum(file.count for file in self.files), last

    # -- flushing ------------------------------------------------------------------------------------------------------

    def to_flush(self) -> list[KeyIndexFlush]:
        """What to sync now, as a list of at most one job; entries are written out first. Raises OSError.

        The newest file's slots may stay behind: after a crash they are made anew.
        """
        if not self._not_synced or self.sync_error:
            return []
        for file in self._not_synced:
            file.write_row()
        return [KeyIndexFlush(self, self._not_synced)]

    def _sync_names(self) -> None:
        self._disk.sync_dir(self.folder)
        self._disk.sync_dir(self.folder.parent)

    def synced(self, counts: Sequence[tuple[KeyIndexFile, int]], end_ms: Millis, end_physical: PhysicalOffset) -> None:
        """A job is done: entries stored up to `end_ms` are safe. A file that grew meanwhile still counts as changed."""
        unchanged = [file for file, count in counts if file.count == count]
        self._not_synced = [file for file in self._not_synced if file not in unchanged]
        self.safe_ms = max(self.safe_ms, end_ms)
        self.safe_physical = max(self.safe_physical, end_physical)

    def flush(self) -> None:
        """Sync everything on this thread. Raises StoreError."""
        try:
            if self.files and self.files[-1].has_waiting_slots:
                self._changed(self.files[-1])
                self.files[-1].write_out()
            for job in self.to_flush():
                job.run()
                job.done()
        except OSError as error:
            self.sync_error = f"sync of the key index failed: {error}"
        if self.sync_error:
            raise StoreError(self.sync_error, path=str(self.folder))

    # -- cutting and dropping ------------------------------------------------------------------------------------------

    def truncate_after(self, physical_offset: PhysicalOffset) -> None:
        """Forget entries of records at or behind `physical_offset` (the log is cut there). Raises OSError."""
        self.cuts += 1
        self._mend([file for file in self.files if file.end_physical >= physical_offset], physical_offset)
        self.safe_physical = min(self.safe_physical, self.last_physical_offset)

    def delete_before(self, min_physical: PhysicalOffset) -> list[KeyIndexFile]:
        """Take out the files that end below `min_physical`, never the newest; the caller removes them."""
        outdated = 0
        for file in self.files[:-1]:
            if file.end_physical >= min_physical:
                break
            outdated += 1
        dropped, self.files = self.files[:outdated], self.files[outdated:]
        self._not_synced = [file for file in self._not_synced if file not in dropped]
        return dropped

    def destroy_all(self) -> None:
        """Remove every file, for good; nothing is safe then. Raises OSError."""
        self._not_synced.clear()
        self.safe_ms = Millis(0)
        self.safe_physical = _NOWHERE
        if self.files:
            while self.files:
                self.files.pop().remove()
            self._disk.sync_dir(self.folder)

    def close(self) -> None:
        """Write out and close all files. Raises OSError."""
        for file in self.files:
            file.write_out()
            file.close()
        if self._first is not None:
            self._first.close()


def _nobody_minds(_path: Path, _what: str) -> None:
    """Until the store is there."""
