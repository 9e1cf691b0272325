"""PlainLog: a new commit log, written record by record from its first byte to its last.

Owns        the files, the place of each record in them, the blanks at their ends.
Must not know   the records' source, queues, index.
"""

from __future__ import annotations

import struct
from pathlib import Path

from rocketlake.base.disk.seam import File, Files
from rocketlake.base.errors import StoreError
from rocketlake.codec.record_layout import BLANK_BYTES, MAGIC_BLANK, PHYSICAL_OFFSET_AT
from rocketlake.store.paths import offset_file_name

__all__ = ["PlainLog"]

_BUFFER_BYTES = 1024 * 1024
_BLANK = struct.Struct(">ii")
_OFFSET = struct.Struct(">q")


class PlainLog:
    """Written once, in order; nothing of it is safe before `close`."""

    def __init__(self, folder: Path, file_bytes: int, disk: Files) -> None:
        self.end = 0
        """Physical offset of the next record."""
        self._folder = folder
        self._file_bytes = file_bytes
        self._disk = disk
        self._file: File | None = None
        self._buffer = bytearray()
        self._written = 0
        """Physical offset of the buffer's first byte."""

    def append(self, record: memoryview) -> None:
        """Append a whole record; its physical offset becomes the one it has here. Raises StoreError, OSError."""
        if len(record) + BLANK_BYTES > self._file_bytes:
            raise StoreError(
                f"a record of {len(record)} bytes does not fit into a file of {self._file_bytes}",
                path=str(self._folder),
                hint="give a larger mappedFileSizeCommitLog, with --config",
            )
        left = self._file_bytes - self.end % self._file_bytes
        if len(record) + BLANK_BYTES > left:
            self._close_file(left)
        at = len(self._buffer)
        self._buffer += record
        _OFFSET.pack_into(self._buffer, at + PHYSICAL_OFFSET_AT, self.end)
        self.end += len(record)
        if len(self._buffer) >= _BUFFER_BYTES:
            self._write()

    def close(self) -> None:
        """Everything is on disk when it returns."""
        self._write()
        self._sync()
        self._disk.sync_dir(self._folder)

    def _close_file(self, left: int) -> None:
        """The rest of the file is blank."""
        self._buffer += _BLANK.pack(left, MAGIC_BLANK)
        self._write()
        self._sync()
        self.end += left
        self._written = self.end

    def _write(self) -> None:
        if not self._buffer:
            return
        start = self._written - self._written % self._file_bytes
        if self._file is None:
            path = self._folder / offset_file_name(start)
            self._file = self._disk.open(path, size=self._file_bytes, create=True)
        self._file.pwrite(self._buffer, self._written - start)
        self._written += len(self._buffer)
        self._buffer = bytearray()

    def _sync(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.sync()
            file.close()
