"""Consume queue files that are open only while they are used.

Owns        a bounded number of open descriptors for any number of queue files; which thread opens one (late_files.py).
Must not know   entries.

Tens of thousands of queues have tens of thousands of files, most of them idle. A `QueueFile` looks like an open file
and is opened when touched; the one touched longest ago is closed for it. Entries are read by `pread`, so no mapping
is held either.

All calls belong to the thread of the store, except `sync`, which a worker may call. A sync opens a descriptor of its
own, so it cannot meet one that is being closed; it covers the writes of all descriptors.
"""

from __future__ import annotations

import resource
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from rocketlake.base.disk.seam import File, Files
from rocketlake.store.disk_wait import DiskWait, NotInMemory, block_of
from rocketlake.store.late_files import FileLate, LateFiles

__all__ = ["OpenFiles", "QueueFile", "descriptors_to_spare"]

Bytes = bytes | bytearray | memoryview

_NEW_FOLDERS = 3  # the queue's, the topic's, and the one of all queues may all be new
_LIMIT_LEAST, _LIMIT_MOST = 512, 20_000


def descriptors_to_spare() -> int:
    """How many queue files may be open: half of the descriptors of this process (`ulimit -n`); links get the rest."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _LIMIT_MOST if soft < 0 else max(_LIMIT_LEAST, min(soft // 2, _LIMIT_MOST))


class OpenFiles:
    """At most `limit` open files; the least recently used one gives way."""

    def __init__(self, files: Files, limit: int, late: LateFiles | None = None, wait: DiskWait | None = None) -> None:
        self.files = files
        self.limit = max(1, limit)
        self.late = late or LateFiles()
        self.wait = wait or DiskWait()
        self.before_make: Callable[[Path], object] = _nothing_before
        """Called on the thread that makes a file, before it is made. Raises OSError."""
        self._opened: OrderedDict[QueueFile, File] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._opened)

    def existing(self, path: Path, size: int, *, is_safe: bool = True) -> QueueFile:
        """A file that lies on disk with this size; it is not opened yet. `is_safe`: its name survives a power cut."""
        return QueueFile(self, path, size, is_new=not is_safe)

    def make(self, path: Path, size: int) -> QueueFile:
        """Make a zero-filled file and its folders; they are safe after the first sync.

        Raises FileLate while a worker makes it; OSError, StoreError.
        """
        opened = self.late.take(path, lambda: self._make(path, size))
        made = QueueFile(self, path, size, is_new=True)
        self._keep(made, opened)
        return made

    def _make(self, path: Path, size: int) -> File:
        self.before_make(path)
        if any(name != path.name for name in self.files.list_dir(path.parent)):
            # A power cut must not leave a later file without the earlier one: that looks like a queue whose old part
            # has expired.
            self.files.sync_dir(path.parent)
        self.files.make_dirs(path.parent)
        return self.files.open(path, size=size, create=True)

    def open(self, file: QueueFile, *, is_written: bool = False) -> File:
        """The open file. Raises FileLate while a worker opens it; OSError."""
        opened = self._opened.pop(file, None)
        if opened is None:
            path = file.path
            opened = self.late.take(path, lambda: self.files.open(path), is_written=is_written)
        self._keep(file, opened)
        return opened

    def open_now(self, file: QueueFile) -> File | None:
        """The open file; None while a worker opens it. Raises OSError."""
        if file in self._opened or not self.late.is_serving:
            return self.open(file)
        try:
            return self.open(file)
        except FileLate:
            return None

    def open_waiting(self, file: QueueFile) -> File:
        """The open file, opened on this thread if need be. Raises OSError."""
        opened = self.open_now(file)
        if opened is None:
            self.late.forget([file.path])
            opened = self.files.open(file.path)
            self._keep(file, opened)
        return opened

    def _keep(self, file: QueueFile, opened: File) -> None:
        while len(self._opened) >= self.limit:
            self._opened.popitem(last=False)[1].close()
        self._opened[file] = opened

    def close(self, file: QueueFile) -> None:
        """Close it if it is open, or being opened."""
        self.late.forget([file.path])
        if (opened := self._opened.pop(file, None)) is not None:
            opened.close()


def _nothing_before(_path: Path) -> None:
    """Until topics are deleted."""


class QueueFile:
    """A file of a consume queue (a `File`), opened when touched."""

    __slots__ = ("_closed", "_is_new", "_pool", "path", "size")

    def __init__(self, pool: OpenFiles, path: Path, size: int, *, is_new: bool) -> None:
        self.path = path
        self.size = size
        self._pool = pool
        self._is_new = is_new
        self._closed = False

    def pread(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`. Raises NotInMemory where the loop must not wait."""
        data = self.pread_now(size, offset) if self._pool.late.is_serving else None
        if data is not None:
            return bytes(data)
        if not self._pool.wait.is_allowed:
            raise NotInMemory([block_of(self, size, offset)])
        return self._pool.open_waiting(self).pread(size, offset)

    def is_zero_from(self, offset: int) -> bool:
        """True if nothing but zeros lies from `offset` on."""
        return self._pool.open(self).is_zero_from(offset)

    def stretches(self) -> list[tuple[int, int]]:
        """The parts that the disk holds."""
        return self._pool.open(self).stretches()

    @property
    def holes_take_space(self) -> bool:
        """False: entries are read by `pread`, nobody looks at a view of them."""
        return False

    def pread_now(self, size: int, offset: int) -> Bytes | None:
        """As `pread`, but None if the read would block."""
        opened = self._pool.open_now(self)
        return None if opened is None else opened.pread_now(size, offset)

    def pwrite(self, data: Bytes, offset: int) -> None:
        """Write all of `data`. Raises FileLate while a worker opens the file; OSError."""
        self._pool.open(self, is_written=True).pwrite(data, offset)

    def sync(self) -> None:
        """Make the content safe, and the names after the file was made. May run on a worker. Raises OSError."""
        files = self._pool.files
        file = files.open(self.path)
        try:
            file.sync()
        finally:
            file.close()
        if self._is_new:
            for folder in list(self.path.parents)[:_NEW_FOLDERS]:
                files.sync_dir(folder)
            self._is_new = False

    def view(self) -> memoryview:
        """A mapping of the whole file."""
        return self._pool.open(self).view()

    def drop_view(self) -> bool:
        """Let go of the mapping."""
        return self._pool.open(self).drop_view()

    def is_resident(self, size: int, offset: int) -> bool:
        """True if these bytes can be read without waiting for the disk."""
        return self._pool.open(self).is_resident(size, offset)

    def truncate(self, size: int) -> None:
        """Cut or lengthen with zeros."""
        self._pool.open(self, is_written=True).truncate(size)

    def close(self) -> None:
        """Close for good; a second call (by the worker that removes the file) does nothing."""
        if not self._closed:
            self._closed = True
            self._pool.close(self)
