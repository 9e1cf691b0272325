"""The interface of a disk, Files and File: the only door to it.

Owns        the methods, and the promises of their results.
Must not know   the disks behind it (posix.py, memory.py), the content of files, the time of syncs.

Rules of a disk: bytes are safe after `File.sync`, names after `Files.sync_dir`; until then a power cut may undo them.
Reads see writes at once. A view shows later writes of the same file.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Protocol

__all__ = ["Bytes", "Closeable", "File", "Files", "is_no_room"]

Bytes = bytes | bytearray | memoryview


def is_no_room(error: Exception) -> bool:
    """True if the disk refused because it is full, or because our quota of it is used up."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


class Closeable(Protocol):
    """A resource that is held until it is closed."""

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
        """True if reading a hole through the view takes space: on a full disk that read kills the process (SIGBUS).

        So it is for files in memory (tmpfs). `pread` of a hole takes no space.
        """

    def pread_now(self, size: int, offset: int) -> Bytes | None:
        """`size` bytes from `offset`, or None if the read would block, or the file ends before `size` bytes."""

    def pwrite(self, data: Bytes, offset: int) -> None:
        """Write all of `data` at `offset`."""

    def sync(self) -> None:
        """Return when all writes before the call survive a power cut. May be called on another thread."""

    def view(self) -> memoryview:
        """Read-only view of the whole file; it sees later writes, and stays valid after `close`."""

    def drop_view(self) -> bool:
        """Release the view. Returns False, and keeps the view, while a slice of it is in use."""

    def is_resident(self, size: int, offset: int) -> bool:
        """True if these bytes of the view can be read without waiting for the disk, or if the machine cannot tell."""

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
        """Give the file a second name at once; FileExistsError if that name is taken: of many callers one wins."""

    def read_bytes(self, path: Path) -> bytes: ...

    def write_bytes(self, path: Path, data: Bytes) -> None:
        """Replace the content and sync it (not the name)."""

    def make_private(self, path: Path) -> None:
        """Let nobody but the owner read or write the file."""

    def sync_dir(self, path: Path) -> None:
        """Return when the names in this folder survive a power cut."""

    def sync_all(self, path: Path) -> bool:
        """True when all files and names of the disk that holds `path` survive a power cut; False: sync each.

        Some machines cannot. It writes what others have left to write on this disk, too.
        """

    def disk_usage(self, path: Path) -> tuple[int, int]:
        """(used and free for us together, free for us) bytes of the disk that holds `path`, as `df` counts them.

        Blocks reserved for root count as neither: we cannot write them.
        """

    def lock(self, path: Path) -> Closeable:
        """Hold the lock file `path` until closed. StoreError with its name if another process holds it."""
