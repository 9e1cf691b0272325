"""The disk seam: the only place that opens, renames, syncs and deletes files.

Owns        Files and File (what the rest may ask of a disk), the real disk, a disk in memory that can lose its power,
            a disk that fails on request.
Must not know   what is in the files, when they are synced.

Rules of a disk, obeyed by MemoryFiles too: bytes are safe after `File.sync`, names after `Files.sync_dir`; until then a
power cut may undo them. Reads see writes at once. A view shows later writes of the same file.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random as random_numbers
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.errors import StoreError
from rocketlake.base.page_cache import address_of, is_in_memory, is_resident, read_now

__all__ = [
    "Closeable",
    "Fault",
    "FaultPlan",
    "FaultyFiles",
    "File",
    "Files",
    "MemoryFiles",
    "PosixFiles",
    "is_no_room",
]

Bytes = bytes | bytearray | memoryview
T = TypeVar("T")

_SECTOR = 512
_LOOK_CHUNK = 64 * 1024


def is_no_room(error: Exception) -> bool:
    """Did the disk refuse because it is full, or because no more of it is granted to us?"""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


class Closeable(Protocol):
    """Something held until closed."""

    def close(self) -> None: ...


class File(Protocol):
    """An open file. All methods raise OSError when the disk refuses."""

    path: Path

    @property
    def size(self) -> int:
        """Length in bytes."""

    def pread(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer at the end of the file."""

    def is_zero_from(self, offset: int) -> bool:
        """True if there are only zeros from `offset` to the end. Holes cost nothing."""

    def stretches(self) -> list[tuple[int, int]]:
        """The parts (start, end) that the disk holds, in order. Between them are holes: they read as zeros."""

    @property
    def holes_take_space(self) -> bool:
        """Would a look at a hole of the view take space? Then it kills the process (SIGBUS) once the disk is full.

        True for files in memory (tmpfs). `pread` of a hole never takes any.
        """

    def pread_now(self, size: int, offset: int) -> Bytes | None:
        """`size` bytes from `offset`, or None if the disk would have to be waited for (and where the file ends)."""

    def pwrite(self, data: Bytes, offset: int) -> None:
        """Write all of `data` at `offset`."""

    def sync(self) -> None:
        """Return when everything written before the call survives a power cut. May be called on another thread."""

    def view(self) -> memoryview:
        """Read-only view of the whole file; it sees later writes, and stays valid after `close`."""

    def is_resident(self, size: int, offset: int) -> bool:
        """Can these bytes of the view be looked at without waiting for the disk? True where nobody can tell."""

    def truncate(self, size: int) -> None:
        """Cut or lengthen with zeros. A view taken before must not be read past the new size."""

    def close(self) -> None:
        """Give the file back; closing twice does nothing."""


class Files(Protocol):
    """A disk. All methods raise OSError when it refuses."""

    def open(self, path: Path, *, size: int | None = None, create: bool = False, read_only: bool = False) -> File:
        """Open; with `create` a missing file is made, `size` bytes of zeros long. StoreError if it has another size."""

    def exists(self, path: Path) -> bool: ...
    def is_dir(self, path: Path) -> bool: ...
    def size(self, path: Path) -> int: ...
    def modified_ms(self, path: Path) -> int: ...

    def list_dir(self, path: Path) -> list[str]:
        """Names in a folder, sorted; empty if there is no such folder."""

    def make_dirs(self, path: Path) -> None:
        """Make a folder and the folders above it."""

    def remove(self, path: Path) -> None:
        """Delete a file, or an empty folder."""

    def rename(self, source: Path, target: Path) -> None:
        """Rename at once; an existing target file is replaced."""

    def link(self, source: Path, target: Path) -> None:
        """Give the file a second name at once; FileExistsError if that name is taken: only one of many is first."""

    def read_bytes(self, path: Path) -> bytes: ...

    def write_bytes(self, path: Path, data: Bytes) -> None:
        """Replace the content and sync it (not the name)."""

    def sync_dir(self, path: Path) -> None:
        """Return when the names in this folder survive a power cut."""

    def disk_usage(self, path: Path) -> tuple[int, int]:
        """(used and free for us together, free for us) bytes of the disk that holds `path`, as `df` counts them.

        What the disk keeps for root is neither: it can be written by nobody who asks.
        """

    def lock(self, path: Path) -> Closeable:
        """Hold the lock file `path` until closed. StoreError naming it if somebody else holds it."""


# --- the real disk --------------------------------------------------------------------------------------------------


class _PosixFile:
    __slots__ = ("_address", "_descriptor", "_map", "path", "size")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor
        self._map: mmap.mmap | None = None
        self._address = 0

    def pread(self, size: int, offset: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def is_zero_from(self, offset: int) -> bool:
        try:
            while offset < self.size:
                offset = os.lseek(self._descriptor, offset, os.SEEK_DATA)
                end = min(self.size, os.lseek(self._descriptor, offset, os.SEEK_HOLE))
                while offset < end:
                    chunk = os.pread(self._descriptor, min(_LOOK_CHUNK, end - offset), offset)
                    if not chunk or chunk.strip(b"\0"):
                        return False
                    offset += len(chunk)
        except OSError as error:
            if error.errno != errno.ENXIO:  # no data behind
                raise
        return True

    def stretches(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        end = 0
        try:
            while end < self.size:
                start = os.lseek(self._descriptor, end, os.SEEK_DATA)
                end = min(self.size, os.lseek(self._descriptor, start, os.SEEK_HOLE))
                found.append((start, end))
        except OSError as error:
            if error.errno != errno.ENXIO:  # no data behind
                raise
        return found

    @property
    def holes_take_space(self) -> bool:
        return is_in_memory(self._descriptor)

    def pread_now(self, size: int, offset: int) -> Bytes | None:
        return read_now(self._descriptor, size, offset)

    def pwrite(self, data: Bytes, offset: int) -> None:
        length = data.nbytes if isinstance(data, memoryview) else len(data)
        try:
            written = os.pwrite(self._descriptor, data, offset)
            while written < length:  # a disk that fills up, or a signal
                more = os.pwrite(self._descriptor, memoryview(data).cast("B")[written:], offset + written)
                if not more:
                    raise OSError(errno.EIO, "the disk takes no more bytes and says no reason")
                written += more
        except OSError as error:
            error.filename = str(self.path)  # the system names files of paths only
            raise
        if offset + length > self.size:
            self.size = offset + length

    def sync(self) -> None:
        _data_sync(self._descriptor)

    def view(self) -> memoryview:
        if self.size == 0:
            return memoryview(b"")
        if self._map is None or len(self._map) != self.size:
            self._map = mmap.mmap(self._descriptor, self.size, access=mmap.ACCESS_READ)
            self._address = address_of(self._map)
        return memoryview(self._map)

    def is_resident(self, size: int, offset: int) -> bool:
        self.view()
        return is_resident(self._address + offset, size)

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            error.filename = str(self.path)
            raise
        self.size = size

    def close(self) -> None:
        # The mapping is only let go: it lives as long as a view of it does.
        self._map = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_data_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class _PosixLock:
    # POSIX locks, as Java takes them, so that an Apache broker on the same folder is seen too. They do not work inside
    # one process, and closing any descriptor of the file drops them: hence the set.
    _held: set[str] = set()  # noqa: RUF012

    def __init__(self, path: Path) -> None:
        self._key = os.path.realpath(path)
        if self._key in self._held:
            raise _locked(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise _locked(path) from error
        self._held.add(self._key)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._held.discard(self._key)


def _locked(path: Path) -> StoreError:
    return StoreError("in use by another process", path=str(path), hint="stop the broker that uses this folder")


def _wrong_size(path: Path, size: int, wanted: int) -> StoreError:
    return StoreError(
        f"the file has {size} bytes, the settings ask for {wanted}",
        path=str(path),
        hint="use the file size settings this store was made with",
    )


class PosixFiles:
    """The disk of this machine."""

    __slots__ = ()

    def open(self, path: Path, *, size: int | None = None, create: bool = False, read_only: bool = False) -> File:
        """Open; see Files.open."""
        flags = os.O_RDONLY if read_only else os.O_RDWR | (os.O_CREAT if create else 0)
        file = _PosixFile(path, os.open(path, flags | os.O_CLOEXEC, 0o644))
        try:
            if size is not None and file.size != size:
                # Length 0 is what a crash between making and lengthening leaves.
                if not create or file.size:
                    raise _wrong_size(path, file.size, size)
                file.truncate(size)
        except BaseException:
            file.close()
            raise
        return file

    def exists(self, path: Path) -> bool:
        """Is there a file or folder of this name?"""
        return path.exists()

    def is_dir(self, path: Path) -> bool:
        """Is it a folder?"""
        return path.is_dir()

    def size(self, path: Path) -> int:
        """Length in bytes."""
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        """Time of the last write, epoch milliseconds."""
        return path.stat().st_mtime_ns // 1_000_000

    def list_dir(self, path: Path) -> list[str]:
        """Sorted names; empty if there is no such folder."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def make_dirs(self, path: Path) -> None:
        """Make the folder and those above."""
        path.mkdir(parents=True, exist_ok=True)

    def remove(self, path: Path) -> None:
        """Delete a file or an empty folder."""
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()

    def rename(self, source: Path, target: Path) -> None:
        """os.replace."""
        os.replace(source, target)

    def link(self, source: Path, target: Path) -> None:
        """os.link."""
        os.link(source, target)

    def read_bytes(self, path: Path) -> bytes:
        """The whole content."""
        return path.read_bytes()

    def write_bytes(self, path: Path, data: Bytes) -> None:
        """Replace the content and sync it."""
        try:
            with path.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            error.filename = str(path)
            raise

    def sync_dir(self, path: Path) -> None:
        """fsync of the folder."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def disk_usage(self, path: Path) -> tuple[int, int]:
        """As statvfs has it: blocks reserved for root are free, but not available."""
        disk = os.statvfs(path)
        used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
        free = disk.f_bavail * disk.f_frsize
        return used + free, free

    def lock(self, path: Path) -> Closeable:
        """An exclusive POSIX lock."""
        return _PosixLock(path)


# --- a disk in memory -----------------------------------------------------------------------------------------------


class _Node:
    """The content of one file: what reads see (`data`), what a power cut leaves (`safe`), what differs (`dirty`)."""

    __slots__ = ("data", "dirty", "lock", "modified_ms", "safe")

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.safe = bytearray()
        self.dirty: list[tuple[int, int]] = []
        self.lock = threading.Lock()
        self.modified_ms = modified_ms

    def resize(self, size: int) -> None:
        # A new buffer: the old one cannot change its length while somebody holds a view of it.
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
        """What is found at the next start; with `random`, each sector not yet synced may have reached the disk."""
        survivor = _Node(self.modified_ms)
        survivor.data = bytearray(self.safe)
        if random is not None:
            sectors = {sector for start, end in self.dirty for sector in range(start // _SECTOR, -(-end // _SECTOR))}
            for sector in sorted(sectors):
                start, end = sector * _SECTOR, min((sector + 1) * _SECTOR, len(self.data))
                if random.random() < 0.5 and start < end:
                    if len(survivor.data) < end:
                        survivor.resize(end)
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
    """A disk in memory, the same for every part that shares it; `power_cut` gives what a crash would leave.

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
        """The process that used this disk was killed: its locks are gone, everything it wrote is still there."""
        self._locked.clear()

    def killed(self) -> MemoryFiles:
        """The disk as the next process finds it after a kill: all that was written, synced or not, and no locks.

        It is a copy: what the killed process's objects still do in the simulation happens to the old disk.
        """
        after = MemoryFiles(capacity=self.capacity, clock=self._clock)
        after._folders = set(self._folders)
        copies = {id(node): node.copy() for node in (*self._nodes.values(), *self._safe_names.values())}
        after._nodes = {path: copies[id(node)] for path, node in self._nodes.items()}
        after._safe_names = {path: copies[id(node)] for path, node in self._safe_names.items()}
        return after

    def power_cut(self, random: random_numbers.Random | None = None) -> MemoryFiles:
        """The disk as the next start finds it: what was synced, and with `random` some sectors that were not."""
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
                raise _wrong_size(path, file.size, size)
            file.truncate(size)
        return file

    def exists(self, path: Path) -> bool:
        """Is there a file or folder of this name?"""
        return path in self._nodes or path in self._folders

    def is_dir(self, path: Path) -> bool:
        """Is it a folder?"""
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
        """Make the folder and those above."""
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
        """Rename a file, or a folder with all in it."""
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

    def sync_dir(self, path: Path) -> None:
        """The names in this folder are safe from now on."""
        for known in [known for known in self._safe_names if known.parent == path and known not in self._nodes]:
            del self._safe_names[known]
        for known, node in self._nodes.items():
            if known.parent == path:
                self._safe_names[known] = node

    def disk_usage(self, path: Path) -> tuple[int, int]:
        """(capacity, free) bytes."""
        return self.capacity, max(0, self.capacity - self.used)

    def lock(self, path: Path) -> Closeable:
        """Exclusive among the users of this disk."""
        if path in self._locked:
            raise _locked(path)
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


# --- a disk that fails on request -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong: in which call, on which files, from which time on, how often, how.

    `call` is a method name of File or Files ("pwrite", "sync", "rename", ...). `path_part` must occur in the path.
    `after` calls go well first, then `times` of them fail (-1: all).
    `error` is the errno raised; with None the call does nothing and reports success (a lost sync, a lost write).
    `keep_bytes`: a pwrite first writes that many bytes (a torn write), so does a write_bytes without room.
    """

    call: str
    path_part: str = ""
    after: int = 0
    times: int = -1
    error: int | None = errno.EIO
    keep_bytes: int = 0


@dataclass(slots=True)
class FaultPlan:
    """The faults of a disk, and the calls it has seen; faults may be added and cleared while it runs."""

    faults: list[Fault] = field(default_factory=list)
    calls: list[tuple[str, Path]] = field(default_factory=list)
    free_bytes: int | None = None
    """What `disk_usage` reports as free, if not the truth."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, fault: Fault) -> FaultPlan:
        """Add one; gives the plan back, to chain."""
        with self._lock:
            self.faults.append(fault)
        return self

    def clear(self) -> None:
        """The disk works again."""
        with self._lock:
            self.faults.clear()

    def take(self, call: str, path: Path) -> Fault | None:
        """Note a call; the fault it must suffer, or None."""
        with self._lock:
            self.calls.append((call, path))
            for fault in self.faults:
                if fault.call != call or fault.path_part not in str(path):
                    continue
                if fault.after > 0:
                    fault.after -= 1
                elif fault.times != 0:
                    fault.times -= 1
                    return fault
        return None


def _raise(fault: Fault, path: Path) -> None:
    if fault.error is not None:
        raise OSError(fault.error, os.strerror(fault.error), str(path))


class _FaultyFile:
    __slots__ = ("_file", "_plan", "path")

    def __init__(self, file: File, plan: FaultPlan) -> None:
        self.path = file.path
        self._file = file
        self._plan = plan

    @property
    def size(self) -> int:
        return self._file.size

    def pread(self, size: int, offset: int) -> bytes:
        if (fault := self._plan.take("pread", self.path)) is not None:
            _raise(fault, self.path)
            return b""
        return self._file.pread(size, offset)

    def is_zero_from(self, offset: int) -> bool:
        return self._file.is_zero_from(offset)

    def stretches(self) -> list[tuple[int, int]]:
        return self._file.stretches()

    @property
    def holes_take_space(self) -> bool:
        return self._file.holes_take_space

    def pread_now(self, size: int, offset: int) -> Bytes | None:
        return None if self._plan.take("pread_now", self.path) is not None else self._file.pread_now(size, offset)

    def pwrite(self, data: Bytes, offset: int) -> None:
        if (fault := self._plan.take("pwrite", self.path)) is not None:
            if fault.keep_bytes:
                self._file.pwrite(memoryview(data).cast("B")[: fault.keep_bytes], offset)
            _raise(fault, self.path)
            return
        self._file.pwrite(data, offset)

    def sync(self) -> None:
        if (fault := self._plan.take("sync", self.path)) is not None:
            _raise(fault, self.path)
            return
        self._file.sync()

    def view(self) -> memoryview:
        return self._file.view()

    def is_resident(self, size: int, offset: int) -> bool:
        return self._plan.take("is_resident", self.path) is None and self._file.is_resident(size, offset)

    def truncate(self, size: int) -> None:
        if (fault := self._plan.take("truncate", self.path)) is not None:
            _raise(fault, self.path)
            return
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()


class FaultyFiles:
    """Another disk, with the faults of a plan."""

    def __init__(self, inner: Files, plan: FaultPlan | None = None) -> None:
        self.inner = inner
        self.plan = plan or FaultPlan()

    def open(self, path: Path, *, size: int | None = None, create: bool = False, read_only: bool = False) -> File:
        """Open; the file has the faults too."""
        if (fault := self.plan.take("open", path)) is not None:
            _raise(fault, path)
        return _FaultyFile(self.inner.open(path, size=size, create=create, read_only=read_only), self.plan)

    def exists(self, path: Path) -> bool:
        """As the inner disk."""
        return self.inner.exists(path)

    def is_dir(self, path: Path) -> bool:
        """As the inner disk."""
        return self.inner.is_dir(path)

    def size(self, path: Path) -> int:
        """As the inner disk."""
        return self.inner.size(path)

    def modified_ms(self, path: Path) -> int:
        """As the inner disk."""
        return self.inner.modified_ms(path)

    def list_dir(self, path: Path) -> list[str]:
        """As the inner disk."""
        return self.inner.list_dir(path)

    def make_dirs(self, path: Path) -> None:
        """May fail."""
        self._do("make_dirs", path, self.inner.make_dirs, path)

    def remove(self, path: Path) -> None:
        """May fail."""
        self._do("remove", path, self.inner.remove, path)

    def rename(self, source: Path, target: Path) -> None:
        """May fail; the plan is asked about the source."""
        self._do("rename", source, self.inner.rename, source, target)

    def link(self, source: Path, target: Path) -> None:
        """May fail; the plan is asked about the source."""
        self._do("link", source, self.inner.link, source, target)

    def read_bytes(self, path: Path) -> bytes:
        """May fail."""
        if (fault := self.plan.take("read_bytes", path)) is not None:
            _raise(fault, path)
        return self.inner.read_bytes(path)

    def write_bytes(self, path: Path, data: Bytes) -> None:
        """May fail; a full disk leaves a file with nothing in it."""
        if (fault := self.plan.take("write_bytes", path)) is not None:
            if fault.error == errno.ENOSPC:
                self.inner.write_bytes(path, memoryview(data).cast("B")[: fault.keep_bytes])
            _raise(fault, path)
            return
        self.inner.write_bytes(path, data)

    def sync_dir(self, path: Path) -> None:
        """May fail."""
        self._do("sync_dir", path, self.inner.sync_dir, path)

    def disk_usage(self, path: Path) -> tuple[int, int]:
        """As the inner disk, or what the plan says."""
        total, free = self.inner.disk_usage(path)
        return total, free if self.plan.free_bytes is None else self.plan.free_bytes

    def lock(self, path: Path) -> Closeable:
        """As the inner disk."""
        return self.inner.lock(path)

    def _do(self, call: str, path: Path, action: Callable[..., None], *arguments: Any) -> None:
        if (fault := self.plan.take(call, path)) is not None:
            _raise(fault, path)
            return
        action(*arguments)
