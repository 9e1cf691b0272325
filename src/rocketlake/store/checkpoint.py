"""The checkpoint: what was safe on disk, and when, in one page.

Owns        the five numbers of the file `checkpoint` and their bytes.
Must not know   who sets them, or when the page is written.

Bytes: docs/internals/store_layout.md, "Checkpoint" (Apache's StoreCheckpoint, byte for byte).
"""

from __future__ import annotations

import struct
from pathlib import Path

from rocketlake.base.errors import StoreError
from rocketlake.base.files import File, Files

__all__ = ["CHECKPOINT_SIZE", "Checkpoint"]

CHECKPOINT_SIZE = 4096
_LAYOUT = struct.Struct(">5q")
_MARGIN_MS = 3000  # Apache's margin: its consume queue time may run ahead of what is on disk


class Checkpoint:
    """Times are store times in epoch ms; 0 = nothing known to be safe."""

    __slots__ = ("_file", "_written", "confirm_offset", "index_ms", "logics_ms", "master_flushed_offset", "physic_ms")

    def __init__(self, files: Files, path: Path) -> None:
        """Read the checkpoint, making a zero one if there is none. Raises StoreError for another length."""
        if files.exists(path) and files.size(path) not in (0, CHECKPOINT_SIZE):
            raise StoreError(
                f"checkpoint is {files.size(path)} bytes long, not {CHECKPOINT_SIZE}",
                path=str(path),
                hint="remove it; the store then recovers from its first file",
            )
        self._file: File = files.open(path, size=CHECKPOINT_SIZE, create=True)
        self._written = self._file.pread(_LAYOUT.size, 0)
        numbers: list[int] = [max(0, number) for number in _LAYOUT.unpack(self._written)]
        self.physic_ms, self.logics_ms, self.index_ms, self.master_flushed_offset, self.confirm_offset = numbers

    @property
    def min_ms(self) -> int:
        """Messages stored before this are in the log and in the consume queues for sure."""
        return max(0, min(self.physic_ms, self.logics_ms) - _MARGIN_MS)

    @property
    def min_index_ms(self) -> int:
        """As `min_ms`, and in the key index too."""
        return min(self.min_ms, self.index_ms)

    def encode(self) -> bytes:
        """The 40 used bytes of the page."""
        return _LAYOUT.pack(
            self.physic_ms, self.logics_ms, self.index_ms, self.master_flushed_offset, self.confirm_offset
        )

    @property
    def changed(self) -> bool:
        """True when the page on disk is older than the numbers here."""
        return self.encode() != self._written

    def write(self, page: bytes) -> None:
        """Write and sync `page` (of `encode`). Blocking; may run on a worker. Raises OSError."""
        self._file.pwrite(page, 0)
        self._file.sync()
        self._written = page

    def close(self) -> None:
        """Close the file; numbers not written are lost."""
        self._file.close()
