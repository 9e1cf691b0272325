"""The disk of this machine.

Owns        the system calls that open, read, write, sync, rename and delete files, and the lock on a folder.
Must not know   the content of files, the time of syncs.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path

from rocketlake.base.disk.page_cache import address_of, is_in_memory, is_resident, read_now
from rocketlake.base.disk.seam import Bytes, Closeable, File
from rocketlake.base.errors import StoreError

__all__ = ["PosixFiles", "locked", "wrong_size"]

_LOOK_CHUNK = 64 * 1024


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
            error.filename = str(self.path)  # the system names a file only if the call had a path
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

    def drop_view(self) -> bool:
        try:
            if self._map is not None:
                self._map.close()
        except BufferError:
            return False
        self._map = None
        return True

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
        # Only our reference to the mapping is dropped: it lives as long as a view of it.
        self._map = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_data_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
_syncfs: Callable[[int], int] | None = None
if sys.platform == "linux" and tuple(map(int, re.findall(r"\d+", platform.release())[:2])) >= (5, 8):
    _syncfs = getattr(ctypes.CDLL(None), "syncfs", None)  # older ones keep errors to themselves


class _PosixLock:
    # POSIX locks, as Java takes them, so that an Apache broker on the same folder is seen too. They do not work inside
    # one process, and closing any descriptor of the file drops them: hence the set.
    _held: set[str] = set()  # noqa: RUF012

    def __init__(self, path: Path) -> None:
        self._key = os.path.realpath(path)
        if self._key in self._held:
            raise locked(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise locked(path) from error
        self._held.add(self._key)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._held.discard(self._key)


def locked(path: Path) -> StoreError:
    return StoreError("in use by another process", path=str(path), hint="stop the broker that uses this folder")


def wrong_size(path: Path, size: int, wanted: int) -> StoreError:
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
                # Length 0: a crash came between making and lengthening the file.
                if not create or file.size:
                    raise wrong_size(path, file.size, size)
                file.truncate(size)
        except BaseException:
            file.close()
            raise
        return file

    def exists(self, path: Path) -> bool:
        """True if there is a file or folder of this name."""
        return path.exists()

    def is_dir(self, path: Path) -> bool:
        """True if there is a folder of this name."""
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

    def make_private(self, path: Path) -> None:
        """Mode 0600."""
        path.chmod(0o600)

    def sync_dir(self, path: Path) -> None:
        """fsync of the folder."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_all(self, path: Path) -> bool:
        """syncfs; Python has no call of its own for it."""
        if _syncfs is None:
            return False
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _syncfs(descriptor) == 0
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
