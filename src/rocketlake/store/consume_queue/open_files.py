"""Consume queue files that are open only while they are used.

Owns        a bounded number of open descriptors for any number of queue files.
Must not know   entries.

Tens of thousands of queues have tens of thousands of files, most of them idle. A `QueueFile` looks like an open file
and is opened when touched; the one touched longest ago is closed for it. Entries are read by `pread`, so no mapping
is held either.

All calls belong to the thread of the store, except `sync`, which a worker may call: it uses a descriptor of its own
(a sync covers the file, by whichever descriptor it was written), so it cannot meet one that is being closed.
"""

from __future__ import annotations

import resource
from collections import OrderedDict
from pathlib import Path

from rocketlake.base.disk.seam import File, Files

__all__ = ["OpenFiles", "QueueFile", "descriptors_to_spare"]

Bytes = bytes | bytearray | memoryview

_NEW_FOLDERS = 3  # the queue's, the topic's, and the one of all queues may all be new
_LIMIT_LEAST, _LIMIT_MOST = 512, 20_000


def descriptors_to_spare() -> int:
    """How many queue files may be open: half of what the process may have (`ulimit -n`), the rest is for links."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _LIMIT_MOST if soft < 0 else max(_LIMIT_LEAST, min(soft // 2, _LIMIT_MOST))


class OpenFiles:
    """At most `limit` open files; the least recently used one gives way."""

    def __init__(self, files: Files, limit: int) -> None:
        self.files = files
        self._limit = max(1, limit)
        self._opened: OrderedDict[QueueFile, File] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._opened)

    def existing(self, path: Path, size: int, *, is_safe: bool = True) -> QueueFile:
        """A file that lies on disk with this size; it is not opened yet. `is_safe`: its name survives a power cut."""
        return QueueFile(self, path, size, is_new=not is_safe)

    def make(self, path: Path, size: int) -> QueueFile:
        """Make a zero-filled file and its folders; they are safe after the first sync. Raises OSError, StoreError."""
        if self.files.exists(path.parent):
            # A power cut must not leave a later file without the earlier one: that looks like a queue whose old part
            # has expired. Once in 300,000 entries this waits for the disk.
            self.files.sync_dir(path.parent)
        self.files.make_dirs(path.parent)
        self._make_room()
        made = QueueFile(self, path, size, is_new=True)
        self._opened[made] = self.files.open(path, size=size, create=True)
        return made

    def open(self, file: QueueFile) -> File:
        """The open file. Raises OSError."""
        opened = self._opened.pop(file, None)
        if opened is None:
            self._make_room()
            opened = self.files.open(file.path)
        self._opened[file] = opened
        return opened

    def close(self, file: QueueFile) -> None:
        """Close it if it is open."""
        if (opened := self._opened.pop(file, None)) is not None:
            opened.close()

    def _make_room(self) -> None:
        while len(self._opened) >= self._limit:
            self._opened.popitem(last=False)[1].close()


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
        """Up to `size` bytes from `offset`."""
        return self._pool.open(self).pread(size, offset)

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
        """The same, or None if the disk would have to be waited for."""
        return self._pool.open(self).pread_now(size, offset)

    def pwrite(self, data: Bytes, offset: int) -> None:
        """Write all of `data`."""
        self._pool.open(self).pwrite(data, offset)

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
        """Can these bytes be read without waiting for the disk?"""
        return self._pool.open(self).is_resident(size, offset)

    def truncate(self, size: int) -> None:
        """Cut or lengthen with zeros."""
        self._pool.open(self).truncate(size)

    def close(self) -> None:
        """Close for good; a second call (by the worker that removes the file) does nothing."""
        if not self._closed:
            self._closed = True
            self._pool.close(self)
