"""A disk in memory that can lose its power.

Owns        its files: the bytes that reads see, the bytes that a power cut leaves.
Must not know   the content of files, the time of syncs.

It obeys the rules of seam.py.
"""

from __future__ import annotations

import errno
import os
import random as random_numbers
import threading
from pathlib import Path

from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.disk.posix import locked, wrong_size
from rocketlake.base.disk.seam import Bytes, Closeable, File

__all__ = ["MemoryFiles"]

_SECTOR = 512


class _Node:
    """One file: its bytes for reads (`data`), its bytes after a power cut (`safe`), where they differ (`dirty`)."""

    __slots__ = ("data", "dirty", "lock", "modified_ms", "safe")

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.safe = bytearray()
        self.dirty: list[tuple[int, int]] = []
        self.lock = threading.Lock()
        self.modified_ms = modified_ms

    def resize(self, size: int) -> None:
        # A new buffer: the old one cannot change its length while there is a view of it.
        self.data = self.data[:size] + bytearray(max(0, size - len(self.data)))

    def sync(self) -> None:
        with self.lock:
            size = len(self.data)
            if len(self.safe) != size:
                self.safe = self.safe[:size] + bytearray(max(0, size - len(self.safe)))
            for start, end in self.dirty:
                self.safe[start : min(end, size)] = self.data[start : min(end, size)]
            self.dirty.clear()

    def copy(self) -> _Node:
        twin = _Node(self.modified_ms)
        twin.data, twin.safe, twin.dirty = bytearray(self.data), bytearray(self.safe), list(self.dirty)
        return twin

    def after_power_cut(self, random: random_numbers.Random | None) -> _Node:
        """The content at the next start; with `random`, each sector that is not synced may have reached the disk."""
        survivor = _Node(self.modified_ms)
        survivor.data = bytearray(self.safe)
        if random is not None:
            sectors = {sector for start, end in self.dirty for sector in range(start // _SECTOR, -(-end // _SECTOR))}
            parts = [(sector * _SECTOR, min((sector + 1) * _SECTOR, len(self.data))) for sector in sorted(sectors)]
            kept = [(start, end) for start, end in parts if random.random() < 0.5 and start < end]
            if kept and len(survivor.data) < kept[-1][1]:
                survivor.resize(kept[-1][1])
            for start, end in kept:
                survivor.data[start:end] = self.data[start:end]
        survivor.safe = bytearray(survivor.data)
        return survivor


class _MemoryFile:
    __slots__ = ("_files", "_node", "_read_only", "path")

    def __init__(self, path: Path, node: _Node, files: MemoryFiles, read_only: bool) -> None:
        self.path = path
        self._node = node
        self._files = files
        self._read_only = read_only

    @property
    def size(self) -> int:
        return len(self._node.data)

    def pread(self, size: int, offset: int) -> bytes:
        return bytes(memoryview(self._node.data)[offset : offset + size])

    def is_zero_from(self, offset: int) -> bool:
        return not self._node.data[offset:].strip(b"\0")

    def stretches(self) -> list[tuple[int, int]]:
        return [(0, self.size)] if self.size else []

    @property
    def holes_take_space(self) -> bool:
        return False

    def pread_now(self, size: int, offset: int) -> Bytes | None:
        return self.pread(size, offset)

    def pwrite(self, data: Bytes, offset: int) -> None:
        if self._read_only:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self.path))
        node = self._node
        length = memoryview(data).nbytes
        end = offset + length
        with node.lock:
            if end > len(node.data):
                self._files.reserve(end - len(node.data), self.path)
                node.resize(end)
            memoryview(node.data)[offset:end] = memoryview(data).cast("B")
            node.dirty.append((offset, end))
            node.modified_ms = self._files.now_ms()

    def sync(self) -> None:
        self._node.sync()

    def view(self) -> memoryview:
        return memoryview(self._node.data).toreadonly()

    def drop_view(self) -> bool:
        data = self._node.data
        try:
            data.append(0)  # its length cannot change while a view of it is held
        except BufferError:
            return False
        data.pop()
        return True

    def is_resident(self, size: int, offset: int) -> bool:
        return True

    def truncate(self, size: int) -> None:
        node = self._node
        with node.lock:
            before = len(node.data)
            self._files.reserve(size - before, self.path)
            node.resize(size)
            if size > before:
                node.dirty.append((before, size))

    def close(self) -> None:
        pass


class MemoryFiles:
    """A disk in memory, shared by all its users; `power_cut` gives the disk after a crash.

    `capacity` bytes, then ENOSPC. Folders are safe at once, file names after `sync_dir`.
    """

    def __init__(self, *, capacity: int = 1 << 40, clock: Clock | None = None) -> None:
        self.capacity = capacity
        self._clock: Clock = clock or SystemClock()
        self._nodes: dict[Path, _Node] = {}
        self._safe_names: dict[Path, _Node] = {}
        self._folders: set[Path] = {Path("/"), Path(".")}
        self._locked: set[Path] = set()

    def now_ms(self) -> int:
        """The time that new writes get."""
        return self._clock.now_ms()

    @property
    def used(self) -> int:
        """Bytes in all files."""
        return sum(len(node.data) for node in self._nodes.values())

    def reserve(self, more: int, path: Path) -> None:
        """OSError ENOSPC if `more` bytes do not fit."""
        if more > 0 and self.used + more > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def process_died(self) -> None:
        """The process that used this disk was killed: its locks are gone, all its writes are still there."""
        self._locked.clear()

    def killed(self) -> MemoryFiles:
        """The disk as the next process finds it after a kill: all writes, synced or not, and no locks.

        It is a copy: objects of the killed process that still run in the simulation write to the old disk.
        """
        after = MemoryFiles(capacity=self.capacity, clock=self._clock)
        after._folders = set(self._folders)
        copies = {id(node): node.copy() for node in (*self._nodes.values(), *self._safe_names.values())}
        after._nodes = {path: copies[id(node)] for path, node in self._nodes.items()}
        after._safe_names = {path: copies[id(node)] for path, node in self._safe_names.items()}
        return after

    def power_cut(self, random: random_numbers.Random | None = None) -> MemoryFiles:
        """The disk as the next start finds it: the synced bytes, and with `random` some other sectors."""
        after = MemoryFiles(capacity=self.capacity, clock=self._clock)
        after._folders = set(self._folders)
        names = dict(self._safe_names)
        if random is not None:
            for path, node in self._nodes.items():
                if names.get(path) is not node and random.random() < 0.5:
                    names[path] = node
        survivors: dict[int, _Node] = {}
        for path, node in names.items():
            if id(node) not in survivors:
                survivors[id(node)] = node.after_power_cut(random)
            after._nodes[path] = after._safe_names[path] = survivors[id(node)]
        return after

    def open(self, path: Path, *, size: int | None = None, create: bool = False, read_only: bool = False) -> File:
        """Open; see Files.open."""
        node = self._nodes.get(path)
        if node is None:
            if not create:
                raise _missing(path)
            if path.parent not in self._folders:
                raise _missing(path.parent)
            node = self._nodes[path] = _Node(self.now_ms())
        file = _MemoryFile(path, node, self, read_only)
        if size is not None and file.size != size:
            if not create or file.size:
                raise wrong_size(path, file.size, size)
            file.truncate(size)
        return file

    def exists(self, path: Path) -> bool:
        """True if there is a file or folder of this name."""
        return path in self._nodes or path in self._folders

    def is_dir(self, path: Path) -> bool:
        """True if there is a folder of this name."""
        return path in self._folders

    def size(self, path: Path) -> int:
        """Length in bytes."""
        return len(self._node(path).data)

    def modified_ms(self, path: Path) -> int:
        """Time of the last write, epoch milliseconds."""
        return self._node(path).modified_ms

    def list_dir(self, path: Path) -> list[str]:
        """Sorted names; empty if there is no such folder."""
        entries = (*self._nodes, *self._folders)
        return sorted({entry.name for entry in entries if entry.parent == path and entry != path})

    def make_dirs(self, path: Path) -> None:
        """Make the folder and the folders above it."""
        for folder in (path, *path.parents):
            if folder in self._nodes:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
            self._folders.add(folder)

    def remove(self, path: Path) -> None:
        """Delete a file or an empty folder."""
        if path in self._folders:
            if self.list_dir(path):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
            self._folders.discard(path)
        else:
            self._node(path)
            del self._nodes[path]

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, or a folder with its files."""
        if source in self._folders:
            for table in (self._nodes, self._safe_names):
                for path in [path for path in table if path.is_relative_to(source)]:
                    table[target / path.relative_to(source)] = table.pop(path)
            moved = {folder for folder in self._folders if folder.is_relative_to(source)}
            self._folders -= moved
            self._folders |= {target / folder.relative_to(source) for folder in moved}
        else:
            self._node(source)
            self._nodes[target] = self._nodes.pop(source)

    def link(self, source: Path, target: Path) -> None:
        """A second name of the same file."""
        if self.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        self._nodes[target] = self._node(source)

    def read_bytes(self, path: Path) -> bytes:
        """The whole content."""
        return bytes(self._node(path).data)

    def write_bytes(self, path: Path, data: Bytes) -> None:
        """Replace the content and sync it."""
        file = self.open(path, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()

    def make_private(self, path: Path) -> None:
        """Memory has no modes."""

    def sync_dir(self, path: Path) -> None:
        """The names in this folder are safe from now on."""
        for known in [known for known in self._safe_names if known.parent == path and known not in self._nodes]:
            del self._safe_names[known]
        for known, node in self._nodes.items():
            if known.parent == path:
                self._safe_names[known] = node

    def sync_all(self, path: Path) -> bool:
        """All bytes and names."""
        for node in self._nodes.values():
            node.sync()
        self._safe_names = dict(self._nodes)
        return True

    def disk_usage(self, path: Path) -> tuple[int, int]:
        """(capacity, free) bytes."""
        return self.capacity, max(0, self.capacity - self.used)

    def lock(self, path: Path) -> Closeable:
        """Exclusive among the users of this disk."""
        if path in self._locked:
            raise locked(path)
        if path not in self._nodes:
            self.open(path, create=True)
        self._locked.add(path)
        return _MemoryLock(self._locked, path)

    def _node(self, path: Path) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise _missing(path)
        return node


class _MemoryLock:
    def __init__(self, held: set[Path], path: Path) -> None:
        self._held = held
        self._path = path

    def close(self) -> None:
        self._held.discard(self._path)


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
