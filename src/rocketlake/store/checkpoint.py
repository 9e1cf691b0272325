"""The checkpoint: what was safe on disk, and when, in one page.

Owns        the five numbers of the file `checkpoint` and their bytes.
Must not know   who sets them, or when the page is written.

Bytes: docs/internals/store_layout.md, "Checkpoint" (Apache's StoreCheckpoint, byte for byte).
"""

from __future__ import annotations

import struct
from pathlib import Path

from rocketlake.base.files import File, Files

__all__ = ["CHECKPOINT_SIZE", "Checkpoint"]

CHECKPOINT_SIZE = 4096
_LAYOUT = struct.Struct(">5q")
_MARGIN_MS = 3000  # Apache's margin: its consume queue time may run ahead of what is on disk


class Checkpoint:
    """Times are store times in epoch ms; 0 = nothing known to be safe."""

    __slots__ = (
        "_disk",
        "_file",
        "_path",
        "_written",
        "confirm_offset",
        "index_ms",
        "logics_ms",
        "master_flushed_offset",
        "physic_ms",
    )

    def __init__(self, files: Files, path: Path) -> None:
        self.physic_ms = 0
        """All records stored until then are safe in the log."""
        self.logics_ms = 0
        """All records stored until then are safe in the consume queues."""
        self.index_ms = 0
        """All records stored until then are safe in the key index."""
        self.master_flushed_offset = 0
        self.confirm_offset = 0
        """The log is safe up to this physical offset."""
        self._disk = files
        self._path = path
        self._file: File | None = None
        self._written = b""

    def load(self) -> None:
        """Read the page, making a zero one if there is none. Raises OSError, StoreError for another length."""
        self._file = self._disk.open(self._path, size=CHECKPOINT_SIZE, create=True)
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
        assert self._file is not None, "load comes first"
        self._file.pwrite(page, 0)
        self._file.sync()
        self._written = page

    def close(self) -> None:
        """Close the file; numbers not written are lost."""
        if self._file is not None:
            self._file.close()
