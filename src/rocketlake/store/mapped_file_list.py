"""Many mapped files seen as one log.

Owns        which file holds which offset; opening, rolling, cutting and dropping files; which files are to be synced.
Must not know   records, queues, threads, timers.

Invariant: files are neighbours, in order: files[i + 1].start == files[i].end.
Invariant: a file whose sync failed is never synced again and stops the flushed offset for ever.

Names and lengths: docs/internals/store_layout.md, "Offset files".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Generic, cast

from rocketlake.base.disk.seam import File, Files
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import get_logger
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.allocate import make_file
from rocketlake.store.mapped_file import Bytes, MappedFile, P
from rocketlake.store.paths import offset_file_name

__all__ = ["FlushJob", "LogFiles", "MappedFileList", "cure_of_a_cut"]

_log = get_logger(__name__)

_LOOK_CHUNK = 1024 * 1024
_WORK_FOLDER = "cut"
"""A folder among the files: nothing in it is part of the log."""

OpenFile = Callable[[Path], File]
"""path -> the new, zero-filled file; raises OSError or StoreError."""


class FlushJob(Generic[P]):
    """One sync of some files up to fixed positions: `run` on a worker thread, then `done` or `failed` on the loop."""

    __slots__ = ("_cuts", "_files", "_list", "end")

    def __init__(self, owner: MappedFileList[P], files: list[tuple[MappedFile[P], int]]) -> None:
        self._list = owner
        self._cuts = owner.cuts
        self._files = files
        last, position = files[-1]
        self.end = last.start + position
        """Log offset that is safe when the job is done."""

    def run(self) -> None:
        """Sync the files, oldest first. Touches no position. Raises OSError."""
        for mapped, _position in self._files:
            try:
                mapped.file.sync()
            except (OSError, ValueError):
                if not mapped.closed:  # its queue was deleted meanwhile, and its bytes with it
                    raise

    def covers(self, other: FlushJob[P]) -> bool:
        """True if this job syncs all that the other one would sync."""
        return self.end == other.end and self._cuts == other._cuts

    def done(self) -> None:
        """The sync succeeded: move the flushed positions, unless the log was cut meanwhile.

        The bytes that lie there now may have been written after the sync began.
        """
        if self._cuts != self._list.cuts:
            return
        for mapped, position in self._files:
            mapped.flushed = max(mapped.flushed, min(position, mapped.committed))
        self._list.flushed_offset = max(self._list.flushed_offset, self.end)

    def failed(self, error: Exception) -> None:
        """The sync failed: no position moves, and these files are never synced again."""
        for mapped, _position in self._files:
            mapped.sync_failed = True
        self._list.sync_error = f"sync of {self._files[0][0].path} failed: {error}"


class MappedFileList(Generic[P]):
    """A log of equally long files in one folder. All offsets are log offsets (bytes from the log's begin)."""

    def __init__(self, folder: Path, file_size: int, files: Files, open_file: OpenFile | None = None) -> None:
        self.folder = folder
        self.file_size = file_size
        self.files: list[MappedFile[P]] = []
        self._origin = cast("P", 0)
        """Where a list without files begins and ends."""
        self.flushed_offset = self._origin
        self.sync_error = ""
        self.cuts = 0
        """How often bytes at its end were taken back."""
        self._disk = files
        self._open_file = open_file or self._make_file

    # -- loading -------------------------------------------------------------------------------------------------------

    def load(
        self,
        open_existing: OpenFile | None = None,
        *,
        safe_end: int | None = None,
        before_cut: Callable[[StoreError], object] | None = None,
    ) -> None:
        """Open the files of the folder, all counted as full and flushed; recovery then finds the real end.

        A last file that was not made to its end is removed. `safe_end` is given after a crash: a last file that lost
        its end behind this offset gets zeros there. Raises StoreError for any other file of a wrong length, and for a
        gap; with `before_cut` (derived files) such a file and those behind it are removed after a call of it with the
        error, which it may raise. Raises OSError.
        """
        open_existing = open_existing or self._disk.open
        names = self._names()
        if names and self._is_unfinished(self.folder / names[-1]):
            self._disk.remove(self.folder / names.pop())
        for number, name in enumerate(names):
            path = self.folder / name
            if safe_end is not None:
                self._lengthen(path, safe_end, names[number + 1 :])
            damage = self._damage(path, names)
            if damage is not None:
                if before_cut is None:
                    raise damage
                before_cut(damage)
                for later in reversed(names[number:]):
                    self._disk.remove(self.folder / later)
                break
            mapped = MappedFile(self._disk, path, open_existing(path), self._start_of(name))
            mapped.count_as_full()
            self.files.append(mapped)
        self.flushed_offset = self.wrote_offset

    def remove_unfinished_cut(self) -> None:
        """Remove the file that a cut was making when a crash came. Raises OSError."""
        work = self.folder / _WORK_FOLDER
        for name in self._disk.list_dir(work):
            self._disk.remove(work / name)
        if self._disk.exists(work):
            self._disk.remove(work)

    def _is_unfinished(self, path: Path) -> bool:
        """True for a file that a crash left half made: it is too short, and there is nothing in it yet."""
        size = self._disk.size(path)
        if size >= self.file_size:
            return False
        file = self._disk.open(path)
        try:
            chunks = (file.pread(_LOOK_CHUNK, position) for position in range(0, size, _LOOK_CHUNK))
            return not any(chunk.strip(b"\0") for chunk in chunks)
        finally:
            file.close()

    def _lengthen(self, path: Path, safe_end: int, later: Sequence[str]) -> None:
        """A crash while the end of the log was erased may leave its file short: give it zeros again, for good."""
        size, start = self._disk.size(path), int(path.name)
        if size >= self.file_size or start + size < safe_end or start % self.file_size:
            return
        if not all(map(self._is_empty, later)):
            return
        _log.warning("%s is %d bytes long, a crash came while its end was erased: zeros follow again", path, size)
        file = self._disk.open(path)
        try:
            file.truncate(self.file_size)
            file.sync()
        finally:
            file.close()

    def _is_empty(self, name: str) -> bool:
        """True for a file made ahead, which holds no bytes of the log."""
        file = self._disk.open(self.folder / name)
        try:
            return file.is_zero_from(0)
        finally:
            file.close()

    def _damage(self, path: Path, names: Sequence[str]) -> StoreError | None:
        """Why the file cannot be the next one of this list."""
        size = self._disk.size(path)
        if size != self.file_size:
            return StoreError(
                f"file is {size} bytes long, the setting says {self.file_size}",
                path=str(path),
                hint=self._cure_of_length(path, size, names),
            )
        if self.files and int(path.name) != self.files[-1].end:
            return StoreError(
                f"files are missing: {offset_file_name(self.files[-1].end)} should come before it",
                path=str(path),
                hint="put the missing files back, or move the files before the gap away",
            )
        return None

    def _cure_of_length(self, path: Path, size: int, names: Sequence[str]) -> str:
        """The names of two neighbours tell the length that files were made with; one file alone does not."""
        made_with = min((int(after) - int(before) for before, after in pairwise(names)), default=0)
        if size < self.file_size == made_with:
            return cure_of_a_cut(str(path), self.file_size)
        setting = f"start with the file size the store was made with{f', {made_with}' if made_with else ''}"
        if made_with or size > self.file_size:
            return setting
        return f"{setting}; if it is {self.file_size}, the file was cut: {cure_of_a_cut(str(path), self.file_size)}"

    def _names(self) -> list[str]:
        if not self._disk.exists(self.folder):
            return []
        names = [name for name in self._disk.list_dir(self.folder) if not self._disk.is_dir(self.folder / name)]
        strange = [name for name in names if not (name.isascii() and name.isdigit())]
        if strange:
            raise StoreError(
                "a file that is not named by an offset lies between the files of a log",
                path=str(self.folder / strange[0]),
                hint="move it away",
            )
        return sorted(names, key=int)

    def _start_of(self, name: str) -> P:
        """Where the file of this name starts."""
        return cast("P", int(name))

    # -- positions -----------------------------------------------------------------------------------------------------

    @property
    def first(self) -> MappedFile[P] | None:
        """The oldest file."""
        return self.files[0] if self.files else None

    @property
    def last(self) -> MappedFile[P] | None:
        """The file that is appended to."""
        return self.files[-1] if self.files else None

    @property
    def min_offset(self) -> P:
        """First offset that is still there; 0 without files."""
        return self.files[0].start if self.files else self._origin

    @property
    def max_offset(self) -> P:
        """Where readable bytes end; 0 without files."""
        for mapped in reversed(self.files):
            # With a write pool several files can wait for their commit; the log is readable up to the first gap.
            if mapped.committed or mapped is self.files[0]:
                return mapped.start + mapped.committed
        return self._origin

    @property
    def wrote_offset(self) -> P:
        """Where appended bytes end (buffered ones count); 0 without files."""
        if not self.files:
            return self._origin
        last = self.files[-1]
        return last.start + last.wrote

    # -- reading -------------------------------------------------------------------------------------------------------

    def find(self, offset: P) -> MappedFile[P] | None:
        """The file that holds the byte at `offset` (whether written or not)."""
        files = self.files
        if not files:
            return None
        index = (offset - files[0].start) // self.file_size
        return files[index] if 0 <= index < len(files) else None

    def view(self, offset: P, size: int) -> memoryview | None:
        """`size` readable bytes at `offset`, None if they are not all there or would cross a file."""
        mapped = self.find(offset)
        return None if mapped is None else mapped.read(offset - mapped.start, size)

    # -- writing -------------------------------------------------------------------------------------------------------

    def file_for_append(self, start_hint: P | None = None) -> MappedFile[P]:
        """The last file, or a new one if it is full; the first ever file starts at or before `start_hint`, or at 0.

        Raises OSError or StoreError when a new file cannot be made.
        """
        last = self.files[-1] if self.files else None
        if last is not None and not last.is_full:
            return last
        if last is not None:
            start = last.end
        else:
            start = self._origin if start_hint is None else start_hint - start_hint % self.file_size
        path = self.folder / offset_file_name(start)
        mapped = MappedFile(self._disk, path, self._open_file(path), start)
        self.files.append(mapped)
        if last is None:
            self.flushed_offset = start
        return mapped

    def _make_file(self, path: Path) -> File:
        return make_file(self._disk, path, self.file_size)

    def append(self, data: Bytes) -> P:
        """Append equally sized entries that fill files exactly; returns the offset. Raises OSError or StoreError."""
        mapped = self.file_for_append()
        offset = mapped.start + mapped.wrote
        mapped.append(data)
        return offset

    def commit(self, least_pages: int = 0) -> bool:
        """Carry write buffers into their files, oldest first; True when something moved. Raises OSError."""
        moved = False
        for mapped in self.files[self._index_of(self.max_offset) :]:
            moved = mapped.commit(least_pages) or moved
        return moved

    # -- flushing ------------------------------------------------------------------------------------------------------

    def to_flush(self, least_pages: int = 0) -> FlushJob[P] | None:
        """The sync that is due now; None if there are too few pages by the page rule, or a sync has failed before."""
        if self.sync_error:
            return None
        due = []
        for mapped in self.files[self._index_of(self.flushed_offset) :]:
            if not mapped.is_due(mapped.flushed, mapped.committed, least_pages):
                break
            due.append((mapped, mapped.committed))
            if mapped.committed < mapped.size:
                break
        return FlushJob(self, due) if due else None

    def flush(self, least_pages: int = 0) -> bool:
        """Sync on this thread; True when something was. Raises StoreError when the sync fails, or failed earlier."""
        job = self.to_flush(least_pages)
        if job is None:
            if self.sync_error:
                raise StoreError(self.sync_error, path=str(self.folder), offset=self.flushed_offset)
            return False
        try:
            job.run()
        except OSError as error:
            job.failed(error)
            raise StoreError(self.sync_error, path=str(self.folder), offset=self.flushed_offset) from error
        job.done()
        return True

    def _index_of(self, offset: P) -> int:
        """Index of the file that holds `offset`; the last file when the offset is just behind a full one."""
        if not self.files:
            return 0
        index = (offset - self.files[0].start) // self.file_size
        return min(max(index, 0), len(self.files) - 1)

    # -- cutting and dropping ------------------------------------------------------------------------------------------

    def truncate(self, offset: P, *, is_read: bool = False) -> None:
        """Forget everything from `offset` on: later files are removed, the rest of the file becomes zero.

        With `is_read` readers may hold views: those keep the bytes they were taken of. The names are safe afterwards,
        the zeros are not. Raises OSError, StoreError.
        """
        self.cuts += 1
        count = len(self.files)
        while self.files and self.files[-1].start >= offset and len(self.files) > 1:
            self.files.pop().remove()
        if len(self.files) < count:
            self._disk.sync_dir(self.folder)  # else a power cut brings later files back behind new records
        if self.files:
            last = self.files[-1]
            position = min(max(offset - last.start, 0), last.wrote)
            if not is_read:
                last.cut(position)
            elif position < last.wrote:
                self._cut_under_readers(last, position)
        self.flushed_offset = min(self.flushed_offset, self.wrote_offset)

    def _cut_under_readers(self, last: MappedFile[P], position: int) -> None:
        if last.is_held():
            self.files[-1] = last.made_anew(position, self.folder / _WORK_FOLDER)
        else:
            last.blank_out(position)

    def ends_at(self, offset: P) -> bool:
        """Is `offset` the end already: in the last file, and only zeros behind? Then set it; else nothing is changed.

        Unlike `truncate` it touches no file, so nothing has to be synced for it (recovery).
        """
        last = self.last
        if last is None or not last.start <= offset <= last.end or (offset == last.start and len(self.files) > 1):
            return False
        position = offset - last.start
        if not last.file.is_zero_from(position):
            return False
        last.end_at(position)
        self.flushed_offset = min(self.flushed_offset, offset)
        return True

    def secure(self, offset: P) -> None:
        """Write everything from `offset` on once more and sync it and the zeros behind (recovery). Raises OSError."""
        for mapped in self.files:
            if mapped.start + mapped.wrote > offset or mapped is self.files[-1]:
                mapped.rewrite(max(0, offset - mapped.start))
                mapped.file.sync()
                mapped.flushed = mapped.committed
        if self.files:
            self._disk.sync_dir(self.folder)  # a broker that was killed may not have come to it
        self.flushed_offset = self.wrote_offset

    def may_drop(self, count: int) -> int:
        """How many of the oldest `count` files `drop_first` would take out."""
        flushed = sum(1 for mapped in self.files[:count] if mapped.flushed == mapped.size)
        return max(0, min(count, flushed, len(self.files) - 1))

    def drop_first(self, count: int) -> list[MappedFile[P]]:
        """Take the oldest `count` files out; the caller removes them, perhaps on a worker.

        Never the last file, nor one that is not flushed: a sync of it may be under way.
        """
        count = self.may_drop(count)
        dropped, self.files = self.files[:count], self.files[count:]
        return dropped

    def begin_on_disk(self) -> P:
        """Where the files on disk begin; no power cut brings back older ones. Blocking; may run on a worker.

        Raises OSError.
        """
        names = [name for name in self._disk.list_dir(self.folder) if name.isdigit()]
        begin = min(map(self._start_of, names), default=self._origin)
        self._disk.sync_dir(self.folder)
        return begin

    def drop_before(self, offset: P) -> list[MappedFile[P]]:
        """Take out the files that lie wholly below `offset`, as `drop_first` does."""
        return self.drop_first(sum(1 for mapped in self.files if mapped.end <= offset))

    def abandon(self) -> None:
        """Close all files and forget them; they stay on disk. Raises OSError."""
        while self.files:
            self.files.pop().close()
        self.flushed_offset = self._origin

    def destroy(self) -> None:
        """Remove all files."""
        while self.files:
            self.files.pop().remove()
        self.flushed_offset = self._origin

    def close(self) -> None:
        """Close all files."""
        for mapped in self.files:
            mapped.close()


def cure_of_a_cut(path: str, file_size: int) -> str:
    """What to do about a file of the log that is too short."""
    return (
        "put back a whole copy of the file, from a backup or another replica, and start again; without a copy,"
        f" `truncate -s {file_size} {path}` gives up what was cut off, and nothing else"
    )


LogFiles = MappedFileList[PhysicalOffset]
"""The files of the commit log."""
