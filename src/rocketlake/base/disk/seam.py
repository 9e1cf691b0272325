"""What the rest may ask of a disk: Files and File, the only door to it.

Owns        the questions, and the promises of their answers.
Must not know   which disk answers (posix.py, memory.py), what is in the files, when they are synced.

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

    def drop_view(self) -> bool:
        """Let go of what `view` gave; False, and nothing is let go, while a part of a view is held somewhere."""

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
