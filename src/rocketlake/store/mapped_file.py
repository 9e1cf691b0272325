"""One fixed-size file of a log: written by `pwrite`, read through a mapping.

Owns        the positions wrote, committed and flushed, and the way bytes get into the file.
Must not know   records, queues, which file comes next, when to flush.

Invariant: flushed <= committed <= wrote <= size, always.
Invariant: bytes behind `wrote` are zero, so a scan of the file ends there.
Invariant: no hole is read through the mapping. On a tmpfs such a read takes a page; if the disk is full, the kernel
kills the process. So the view of a file that was closed ends behind its last record.

Why pwrite and not a store into the mapping: docs/decisions/0001-append-by-pwrite.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

from rocketlake.base.clock import Point
from rocketlake.base.disk.seam import File, Files
from rocketlake.base.errors import StoreError
from rocketlake.model.positions import PhysicalOffset

__all__ = ["PAGE", "LogFile", "MappedFile", "P"]

PAGE = 4096
_REWRITE_CHUNK = 1024 * 1024

Bytes = bytes | bytearray | memoryview
P = TypeVar("P", bound=Point)
"""The kind of place that a file starts at: a physical offset, or a position in the entries of a queue."""


class MappedFile(Generic[P]):
    """One file of a log; `start` is the log offset of its first byte, positions count from the file's begin.

    With a write buffer (write pool) an append only fills the buffer: `wrote` moves, and `commit` carries the bytes into
    the file. Without one, `committed` follows `wrote`. Bytes can be read up to `committed`.
    """

    __slots__ = (
        "_buffer",
        "_filled",
        "_view",
        "_visible",
        "_zeroed",
        "closed",
        "committed",
        "file",
        "files",
        "flushed",
        "path",
        "size",
        "start",
        "sync_failed",
        "wrote",
    )

    def __init__(self, files: Files, path: Path, file: File, start: P) -> None:
        self.files = files
        self.path = path
        self.file = file
        self.start = start
        self.size = file.size
        self.wrote = 0
        self.committed = 0
        self.flushed = 0
        self.sync_failed = False
        """Set by a failed sync: the kernel may since call the lost pages clean, so a later sync proves nothing."""
        self.closed = False
        self._buffer: memoryview | None = None
        self._filled = 0
        self._view: memoryview | None = None
        self._visible = self.size
        """Where the view ends."""
        self._zeroed = 0

    # -- questions -----------------------------------------------------------------------------------------------------

    @property
    def end(self) -> P:
        """Log offset behind the last byte this file can hold."""
        return self.start + self.size

    @property
    def is_full(self) -> bool:
        """True when nothing more will be appended."""
        return self.wrote == self.size

    @property
    def room(self) -> int:
        """Bytes that can still be appended."""
        return self.size - self.wrote

    @property
    def buffered(self) -> bool:
        """True while appends go to a write buffer first."""
        return self._buffer is not None

    def is_due(self, done: int, reached: int, least_pages: int) -> bool:
        """True if a flush or commit from `done` to `reached` covers `least_pages` pages, or fills the file.

        With `least_pages` 0 any byte will do.
        """
        if least_pages > 0 and reached < self.size:
            return reached // PAGE - done // PAGE >= least_pages
        return reached > done

    # -- reading -------------------------------------------------------------------------------------------------------

    @property
    def view(self) -> memoryview:
        """The file, read-only; sees later appends. A slice keeps the mapping alive.

        The zeros behind the last record of a full file may be missing.
        """
        if self._view is None:
            self._view = self.file.view()[: self._visible]
        return self._view

    @property
    def readable(self) -> int:
        """Where the readable bytes of `view` end."""
        return min(self.committed, self._visible)

    def read(self, position: int, size: int) -> memoryview | None:
        """`size` bytes at `position`, None when they are not all readable."""
        if position < 0 or size < 0 or position + size > self.committed or position + size > self._visible:
            return None
        return self.view[position : position + size]

    def appended(self, position: int) -> memoryview:
        """All bytes appended from `position` on, readable or not."""
        if self._buffer is not None:
            return self._buffer[position : self._filled].toreadonly()
        return self.view[position : self.readable]

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(self, data: Bytes) -> None:
        """Write `data` behind what is there. OSError: nothing was appended; StoreError: nor will be later."""
        position = self.wrote
        reached = position + len(data)
        if reached > self.size:
            raise StoreError("append does not fit", path=str(self.path), offset=self.start + position)
        if self._buffer is not None:
            self._buffer[position:reached] = data
            self.wrote = self._filled = reached
            return
        try:
            self.file.pwrite(data, position)
        except OSError:
            self.erase_tail()
            raise
        self.wrote = self.committed = reached

    def close_with(self, data: Bytes) -> None:
        """Append `data` and give up the rest of the file: it is full afterwards."""
        self.append(data)
        self._shows(self.wrote)
        self.wrote = self.size
        if self._buffer is None:
            self.committed = self.size

    def commit(self, least_pages: int = 0) -> bool:
        """Carry buffered bytes into the file; True when something moved. OSError: try again later."""
        if self._buffer is None or not self.is_due(self.committed, self.wrote, least_pages):
            return False
        # Only the filled part: the rest of a used buffer still holds bytes of an older file.
        self.file.pwrite(self._buffer[self.committed : self._filled], self.committed)
        self.committed = self.wrote
        return True

    def give_up_buffer(self) -> memoryview | None:
        """The write buffer, if there is one; later appends go into the file at once.

        For a committed file: bytes that only the buffer has are lost.
        """
        buffer, self._buffer = self._buffer, None
        return buffer

    def lend_buffer(self, buffer: memoryview) -> None:
        """From now on append to `buffer` (as long as the file) first. Only for an empty file."""
        self._buffer = buffer

    def take_buffer(self) -> memoryview | None:
        """The write buffer of a full and committed file, for reuse; None if there is none or it is still needed."""
        if self._buffer is None or self.committed < self.size:
            return None
        buffer, self._buffer = self._buffer, None
        return buffer

    def zero_ahead(self, step: int) -> None:
        """Have written zeros behind `wrote`, half a `step` at least. OSError: then there are fewer.

        Bytes appended over zeros take no new blocks, so their sync need not wait for the file system's journal.
        """
        begin = max(self._zeroed, self.wrote)
        end = min(begin + step, self.size)
        if self._buffer is None and begin < end and begin - self.wrote < step // 2:
            self.file.pwrite(bytes(end - begin), begin)
            self._zeroed = end

    def count_as_full(self) -> None:
        """After opening: the whole file counts as written and safe, until recovery finds its end. Raises OSError."""
        if self.file.holes_take_space:
            end = 0
            for start, stop in self.file.stretches():
                self._fill(end, start)
                end = stop
            self._shows(end)
        self.wrote = self.committed = self.flushed = self.size

    def _fill(self, start: int, end: int) -> None:
        """Zeros, over a hole between records (only damage makes one) or over bytes that are cut."""
        for position in range(start, end, _REWRITE_CHUNK):
            self.file.pwrite(bytes(min(_REWRITE_CHUNK, end - position)), position)

    def _shows(self, end: int) -> None:
        self._visible = end
        self._view = None

    def was_cut(self, length: int) -> None:
        """The file on disk ends at `length`, by no doing of the store: nothing behind is shown to readers any more."""
        self._shows(min(self._visible, length))

    def end_at(self, position: int) -> None:
        """The written bytes end there, and only zeros lie behind (recovery)."""
        self.wrote = self.committed = position
        self.flushed = min(self.flushed, position)
        self._shows(self.size)

    def erase_tail(self) -> None:
        """Make everything behind `wrote` zero, so that no torn or outdated record can ever be read again.

        A crash in between leaves a short file: the next start lengthens it (`MappedFileList.load`). Raises StoreError
        when the file system refuses; the file must not be appended to after that.
        """
        try:
            self.file.truncate(self.wrote)
            self.file.truncate(self.size)
            self._shows(self.size)
            self._zeroed = 0
        except OSError as error:
            raise StoreError(
                f"cannot erase a torn write: {error}", path=str(self.path), offset=self.start + self.wrote
            ) from error

    def rewrite(self, position: int) -> None:
        """Write the bytes from `position` on once more, as they are, so that the next sync really writes them.

        Zeros need not be: lost or not, they are read as zeros.
        """
        while position < self.wrote:
            data = self.file.pread(min(_REWRITE_CHUNK, self.wrote - position), position)
            if not data:
                raise StoreError("the file became shorter", path=str(self.path), offset=position)
            # A hole reads as zeros, too; a write into it takes space, and the disk may be full.
            if used := len(data.rstrip(b"\0")):
                self.file.pwrite(data[:used], position)
            position += len(data)

    def cut(self, position: int) -> None:
        """Forget the bytes behind `position` (recovery)."""
        self.end_at(position)
        self.erase_tail()

    def blank_out(self, position: int) -> None:
        """The same in an open store, while no reader holds a view (`is_held`): zeros are written over the bytes.

        The file keeps its length all the time, so a crash leaves none that is too short. Raises OSError.
        """
        for start, end in self.file.stretches():
            self._fill(max(start, position), end)
        self.end_at(position)
        self._zeroed = 0

    def is_held(self) -> bool:
        """True while a reader holds a part of the view: then the bytes behind the log's end must stay as they are."""
        self._view = None
        return not self.file.drop_view()

    def made_anew(self, position: int, work_folder: Path) -> MappedFile[P]:
        """A file with the same name and only the bytes before `position`; views of this file keep their bytes.

        It is written beside the log and renamed, so a crash leaves one or the other. Blocking. Raises OSError.
        """
        self.files.make_dirs(work_folder)
        fresh = work_folder / self.path.name
        if self.files.exists(fresh):
            self.files.remove(fresh)  # of a cut that a crash has ended
        file = self.files.open(fresh, size=self.size, create=True)
        for start in range(0, position, _REWRITE_CHUNK):
            file.pwrite(self.file.pread(min(_REWRITE_CHUNK, position - start), start), start)
        file.sync()
        file.close()
        self.files.rename(fresh, self.path)
        self.files.remove(work_folder)
        self.files.sync_dir(self.path.parent)
        anew = MappedFile(self.files, self.path, self.files.open(self.path, size=self.size), self.start)
        anew.wrote = anew.committed = anew.flushed = position
        self.close()
        return anew

    # -- end -----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the descriptor; slices that readers hold stay valid."""
        self.closed = True
        self._view = None
        self.file.close()

    def remove(self) -> None:
        """Close and delete the file. Blocking: large files take a while to free. Readers' slices stay valid."""
        self.close()
        self.files.remove(self.path)


LogFile = MappedFile[PhysicalOffset]
"""A file of the commit log."""
