"""The checkpoint: one page that says up to which time and place log, queues and index are safe on disk.

Owns        the five numbers of the file `checkpoint` and their bytes; three positions of our own in the bytes behind.
Must not know   which part sets the numbers, when the page is written.

Apache's broker writes its numbers and leaves the rest of the page. Our first position carries a checksum over the
whole: it counts only while the numbers are those that this broker wrote. The others are there for a replica only, and
have checksums of their own.

Bytes: docs/internals/store_layout.md, "Checkpoint" (Apache's StoreCheckpoint, byte for byte).
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from pathlib import Path

from rocketlake.base.clock import Millis
from rocketlake.base.crc32 import crc32
from rocketlake.base.disk.seam import File, Files
from rocketlake.base.logs import get_logger
from rocketlake.model.positions import PhysicalOffset

__all__ = ["CHECKPOINT_SIZE", "Checkpoint"]

_log = get_logger(__name__)

CHECKPOINT_SIZE = 4096
_LAYOUT = struct.Struct(">5q")
_OURS = struct.Struct(">8sqI")
_OURS_MAGIC = b"RLDERIVE"
_USED_BYTES = _LAYOUT.size + _OURS.size
_REPLICA = struct.Struct(">8sqI")
_REPLICA_MAGIC = b"RLCONFRM"
_DAMAGE_MAGIC = b"RLDAMAGE"
_OWN_BYTES = _USED_BYTES + 2 * _REPLICA.size
_MARGIN_MS = 3000  # Apache's margin: its consume queue time may run ahead of the disk


class Checkpoint:
    """Times are store times in epoch ms; 0 = nothing known to be safe."""

    __slots__ = (
        "_cuts",
        "_disk",
        "_file",
        "_lock",
        "_path",
        "_written",
        "confirm_offset",
        "confirmed",
        "damaged_from",
        "derived_offset",
        "index_ms",
        "is_distrusted",
        "logics_ms",
        "master_flushed_offset",
        "physic_ms",
    )

    def __init__(self, files: Files, path: Path) -> None:
        self.physic_ms = Millis(0)
        """All records stored until then are safe in the log."""
        self.logics_ms = Millis(0)
        """All records stored until then are safe in the consume queues."""
        self.index_ms = Millis(0)
        """All records stored until then are safe in the key index."""
        self.master_flushed_offset = PhysicalOffset(0)
        self.confirm_offset = PhysicalOffset(0)
        """The log is safe up to this physical offset."""
        self.derived_offset = PhysicalOffset(-1)
        """Queues and index lack no record that starts below this physical offset; -1: only the times are known."""
        self.confirmed = PhysicalOffset(-1)
        """No change of the master takes back the log up to this physical offset; -1: this store was no replica."""
        self.damaged_from = PhysicalOffset(-1)
        """A replica's start found that its log lacks, from here on, what it has told its master to have; -1: nothing.

        Until the log was cut there and copied anew: a later start does not see it any more.
        """
        self.is_distrusted = False
        """The page is not as this broker wrote it: none of its numbers counts."""
        self._disk = files
        self._path = path
        self._file: File | None = None
        self._written = b""
        self._lock = threading.Lock()
        self._cuts = 0

    def load(self) -> None:
        """Read the page, making a zero one if there is none. Raises OSError, StoreError for another length."""
        self._file = self._disk.open(self._path, size=CHECKPOINT_SIZE, create=True)
        page = self._file.pread(_OWN_BYTES, 0)
        written, replicas = page[:_USED_BYTES], page[_USED_BYTES:]
        self._written = page if any(replicas) else written
        self.confirmed = self._confirmed_in(replicas[: _REPLICA.size])
        self.damaged_from = self._damaged_in(replicas[_REPLICA.size :])
        page = _without_flipped_bit(written)
        if page != written:
            _log.warning("one bit of %s is wrong on disk, its checksum says which: it is mended", self._path)
        *times, flushed, confirmed = [max(0, number) for number in _LAYOUT.unpack_from(page)]
        self.physic_ms, self.logics_ms, self.index_ms = map(Millis, times)
        self.master_flushed_offset, self.confirm_offset = PhysicalOffset(flushed), PhysicalOffset(confirmed)
        is_ours = _is_ours(page)
        self.derived_offset = PhysicalOffset(max(-1, _OURS.unpack_from(page, _LAYOUT.size)[1]) if is_ours else -1)
        if not is_ours and any(page[_LAYOUT.size :]):
            self._distrust()

    def _confirmed_in(self, replica: bytes) -> PhysicalOffset:
        magic, confirmed, checksum = _REPLICA.unpack(replica)
        if not any(replica):
            return PhysicalOffset(-1)
        if magic == _REPLICA_MAGIC and checksum == crc32(replica[:-4]) and confirmed >= 0:
            return PhysicalOffset(confirmed)
        _log.error("%s does not say what is confirmed: messages wait for the master to say it", self._path)
        return PhysicalOffset(0)

    def _damaged_in(self, replica: bytes) -> PhysicalOffset:
        magic, damaged_from, checksum = _REPLICA.unpack(replica)
        if not any(replica):
            return PhysicalOffset(-1)
        if magic == _DAMAGE_MAGIC and checksum == crc32(replica[:-4]) and damaged_from >= 0:
            return PhysicalOffset(damaged_from)
        _log.error("%s does not say where the log is damaged: all of it is copied anew", self._path)
        return PhysicalOffset(0)

    def _distrust(self) -> None:
        """The page is damaged, or Apache's broker has written its numbers since: nothing is known to be safe.

        A number that is too high would hide lost records: the walk would begin behind it, or the log end behind it
        with a hole before.
        """
        _log.warning("%s is not as this broker wrote it: the whole log is looked at after a crash", self._path)
        self.is_distrusted = True
        self.physic_ms = self.logics_ms = self.index_ms = Millis(0)
        self.master_flushed_offset = self.confirm_offset = PhysicalOffset(0)

    @property
    def min_ms(self) -> Millis:
        """Messages stored before this are in the log and in the consume queues for sure."""
        return max(Millis(0), min(self.physic_ms, self.logics_ms) - _MARGIN_MS)

    @property
    def min_index_ms(self) -> Millis:
        """As `min_ms`, and in the key index too."""
        return min(self.min_ms, self.index_ms)

    def note_damage(self, start: PhysicalOffset) -> None:
        """The log is damaged from there on; the next write says so."""
        self.damaged_from = start if self.damaged_from < 0 else min(self.damaged_from, start)

    @property
    def is_ours(self) -> bool:
        """True while the page is as this broker wrote it last."""
        return self.derived_offset >= 0

    def encode(self) -> bytes:
        """The used bytes of the page: as Apache writes it while there is no position."""
        numbers = _LAYOUT.pack(
            self.physic_ms, self.logics_ms, self.index_ms, self.master_flushed_offset, self.confirm_offset
        )
        if self.derived_offset < 0:
            ours = numbers + bytes(_OURS.size)
        else:
            ours = _summed(numbers + _OURS.pack(_OURS_MAGIC, self.derived_offset, 0))
        if self.confirmed < 0:
            return ours
        replica = _summed(_REPLICA.pack(_REPLICA_MAGIC, self.confirmed, 0))
        if self.damaged_from < 0:
            return ours + replica + bytes(_REPLICA.size)
        return ours + replica + _summed(_REPLICA.pack(_DAMAGE_MAGIC, self.damaged_from, 0))

    @property
    def changed(self) -> bool:
        """True when the page on disk is older than the numbers here."""
        return self.encode() != self._written

    def write(self, page: bytes) -> None:
        """Write and sync `page` (of `encode`). Blocking; may run on a worker. Raises OSError."""
        with self._lock:
            self._write(page)

    def job(self) -> Callable[[], None]:
        """Writes the page as it is now, on a worker, unless the log was cut meanwhile. Raises OSError."""
        page, cuts = self.encode(), self._cuts

        def write() -> None:
            with self._lock:
                if cuts == self._cuts:
                    self._write(page)

        return write

    def cut(self, log_end: PhysicalOffset, store_ms: Millis) -> None:
        """Before the log is cut: nothing is safe from `log_end` on, nor at or after that time. Raises OSError."""
        safe_ms = max(Millis(0), store_ms - 1)
        with self._lock:
            self._cuts += 1
            self.confirm_offset = min(self.confirm_offset, log_end)
            self.confirmed = min(self.confirmed, log_end)
            if log_end <= self.damaged_from:
                self.damaged_from = PhysicalOffset(-1)
            self.derived_offset = min(self.derived_offset, log_end)
            self.physic_ms = min(self.physic_ms, safe_ms)
            self.logics_ms = min(self.logics_ms, safe_ms)
            self.index_ms = min(self.index_ms, safe_ms)
            self._write(self.encode())

    def _write(self, page: bytes) -> None:
        assert self._file is not None, "load comes first"
        self._file.pwrite(page, 0)
        self._file.sync()
        self._written = page

    def close(self) -> None:
        """Close the file; numbers not written are lost."""
        if self._file is not None:
            self._file.close()


def _summed(page: bytes) -> bytes:
    """With the checksum of all bytes before in place of the last four."""
    return page[:-4] + crc32(page[:-4]).to_bytes(4, "big")


def _is_ours(page: bytes) -> bool:
    """True if every number of the page is the one that this broker wrote."""
    magic, _position, checksum = _OURS.unpack_from(page, _LAYOUT.size)
    return bool(magic == _OURS_MAGIC and checksum == crc32(page[: _USED_BYTES - 4]))


def _without_flipped_bit(page: bytes) -> bytes:
    """The page as it was written, if only one bit of it differs; else the page as it is.

    Nothing else says how far the log was safe: without it, damage in the log would look like the log's end.
    """
    if _is_ours(page) or not any(page[_LAYOUT.size :]):
        return page
    number = int.from_bytes(page, "big")
    flipped = ((number ^ (1 << bit)).to_bytes(len(page), "big") for bit in range(8 * len(page)))
    return next(filter(_is_ours, flipped), page)
