"""A disk that tells of each call before it is made: to slow it down, or to see which thread makes it.

Owns        which calls are told: all of the seam that may wait for a disk, and `pwrite`.
Must not know   what the listener does, what is in the files.

Not told: `pread_now`, `is_resident` and `view`, which answer without the disk, and `close`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rocketlake.base.disk.seam import Bytes, Closeable, File, Files

__all__ = ["Told", "WatchedFiles"]

Told = Callable[[str, Path], object]
"""(name of the call, path): called on the thread that makes the call, just before it."""


class _WatchedFile:
    __slots__ = ("_file", "_told", "path")

    def __init__(self, file: File, told: Told) -> None:
        self.path = file.path
        self._file = file
        self._told = told

    @property
    def size(self) -> int:
        return self._file.size

    def pread(self, size: int, offset: int) -> bytes:
        self._told("pread", self.path)
        return self._file.pread(size, offset)

    def is_zero_from(self, offset: int) -> bool:
        self._told("is_zero_from", self.path)
        return self._file.is_zero_from(offset)

    def stretches(self) -> list[tuple[int, int]]:
        self._told("stretches", self.path)
        return self._file.stretches()

    @property
    def holes_take_space(self) -> bool:
        return self._file.holes_take_space

    def pread_now(self, size: int, offset: int) -> Bytes | None:
        return self._file.pread_now(size, offset)

    def pwrite(self, data: Bytes, offset: int) -> None:
        self._told("pwrite", self.path)
        self._file.pwrite(data, offset)

    def sync(self) -> None:
        self._told("sync", self.path)
        self._file.sync()

    def view(self) -> memoryview:
        return self._file.view()

    def drop_view(self) -> bool:
        return self._file.drop_view()

    def is_resident(self, size: int, offset: int) -> bool:
        return self._file.is_resident(size, offset)

    def truncate(self, size: int) -> None:
        self._told("truncate", self.path)
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()


class WatchedFiles:
    """Another disk, each call of which is told first."""

    def __init__(self, inner: Files, told: Told) -> None:
        self.inner = inner
        self._told = told

    def open(self, path: Path, *, size: int | None = None, create: bool = False, read_only: bool = False) -> File:
        """Open; the file tells, too."""
        self._told("open", path)
        return _WatchedFile(self.inner.open(path, size=size, create=create, read_only=read_only), self._told)

    def exists(self, path: Path) -> bool:
        """As the inner disk."""
        self._told("exists", path)
        return self.inner.exists(path)

    def is_dir(self, path: Path) -> bool:
        """As the inner disk."""
        self._told("is_dir", path)
        return self.inner.is_dir(path)

    def size(self, path: Path) -> int:
        """As the inner disk."""
        self._told("size", path)
        return self.inner.size(path)

    def modified_ms(self, path: Path) -> int:
        """As the inner disk."""
        self._told("modified_ms", path)
        return self.inner.modified_ms(path)

    def list_dir(self, path: Path) -> list[str]:
        """As the inner disk."""
        self._told("list_dir", path)
        return self.inner.list_dir(path)

    def make_dirs(self, path: Path) -> None:
        """As the inner disk."""
        self._told("make_dirs", path)
        self.inner.make_dirs(path)

    def remove(self, path: Path) -> None:
        """As the inner disk."""
        self._told("remove", path)
        self.inner.remove(path)

    def rename(self, source: Path, target: Path) -> None:
        """As the inner disk; told with the source."""
        self._told("rename", source)
        self.inner.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        """As the inner disk; told with the source."""
        self._told("link", source)
        self.inner.link(source, target)

    def read_bytes(self, path: Path) -> bytes:
        """As the inner disk."""
        self._told("read_bytes", path)
        return self.inner.read_bytes(path)

    def write_bytes(self, path: Path, data: Bytes) -> None:
        """As the inner disk."""
        self._told("write_bytes", path)
        self.inner.write_bytes(path, data)

    def make_private(self, path: Path) -> None:
        """As the inner disk."""
        self._told("make_private", path)
        self.inner.make_private(path)

    def sync_dir(self, path: Path) -> None:
        """As the inner disk."""
        self._told("sync_dir", path)
        self.inner.sync_dir(path)

    def sync_all(self, path: Path) -> bool:
        """As the inner disk."""
        self._told("sync_all", path)
        return self.inner.sync_all(path)

    def disk_usage(self, path: Path) -> tuple[int, int]:
        """As the inner disk."""
        self._told("disk_usage", path)
        return self.inner.disk_usage(path)

    def lock(self, path: Path) -> Closeable:
        """As the inner disk."""
        self._told("lock", path)
        return self.inner.lock(path)
