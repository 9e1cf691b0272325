"""Whether a read may wait for the disk. On the loop it mostly may not: then it says which bytes must be brought first.

Owns        the permission to wait, and how a read says what it lacks.
Must not know   the readers, how bytes are brought into memory (residency.py).

Reads of queues, index and log by a request run inside `DiskWait.none()`. One that comes to bytes which are not in
memory raises `NotInMemory`; the request is held while a worker brings them, and then runs again from its start.
Outside (recovery, stop, the audit) a read waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rocketlake.base.disk.seam import Bytes, File
from rocketlake.base.errors import StoreError
from rocketlake.store.results import ColdPart

__all__ = ["DiskWait", "NotInMemory", "block_of"]

_BLOCK_BYTES = 64 * 1024


class NotInMemory(StoreError):
    """A read came to bytes that a worker must bring first: `parts`."""

    def __init__(self, parts: Sequence[ColdPart]) -> None:
        super().__init__("not in memory", path=str(parts[0][0]) if parts else "")
        self.parts = parts


class DiskWait:
    """The permission, one for all reads of a store."""

    __slots__ = ("is_allowed",)

    def __init__(self) -> None:
        self.is_allowed = True

    @contextmanager
    def none(self) -> Iterator[None]:
        """In this block no read waits: it raises NotInMemory."""
        before, self.is_allowed = self.is_allowed, False
        try:
            yield
        finally:
            self.is_allowed = before

    def pread(self, file: File, size: int, offset: int) -> Bytes:
        """`File.pread`, which waits only where it must and may. Raises NotInMemory, OSError."""
        size = min(size, file.size - offset)
        if size <= 0:
            return b""
        data = file.pread_now(size, offset)
        if data is not None:
            return data
        if self.is_allowed:
            return file.pread(size, offset)
        raise NotInMemory([block_of(file, size, offset)])


def block_of(file: File, size: int, offset: int) -> ColdPart:
    """The neighbourhood of these bytes: reads go on near the last one, and to fetch it costs a disk no more."""
    start = offset - offset % _BLOCK_BYTES
    end = min(file.size, -(-(offset + size) // _BLOCK_BYTES) * _BLOCK_BYTES)
    return file.path, start, end - start
