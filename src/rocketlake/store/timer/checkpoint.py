"""The timer's checkpoint: how far messages are delivered, put into the wheel, and safe on disk.

Owns        the numbers of the page `timercheck`, and their form on the wire.
Must not know   when it is written, the wheel, messages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rocketlake.base.disk.seam import Files
from rocketlake.store.timer.layout import CHECKPOINT, CHECKPOINT_BYTES

__all__ = ["TimerCheckpoint", "load_checkpoint", "save_checkpoint"]


@dataclass(frozen=True, slots=True)
class TimerCheckpoint:
    """All zero: nothing has ever been put into the wheel."""

    read_ms: int = 0
    """The tick to deliver next (epoch ms): all before it are delivered, and their copies cannot be lost."""
    log_end: int = 0
    """Up to here the timer log is safe on disk, and the wheel leads to it."""
    queue_offset: int = 0
    """Messages of the timer topic before this offset are in the wheel."""
    master_queue_offset: int = 0
    """The same on the master, on a slave."""
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0

    def to_bytes(self) -> bytes:
        """The numbers, as GET_TIMER_CHECK_POINT answers them."""
        return CHECKPOINT.pack(
            self.read_ms,
            self.log_end,
            self.queue_offset,
            self.master_queue_offset,
            self.state_version,
            self.timestamp,
            self.counter,
        )

    @classmethod
    def of_bytes(cls, data: bytes) -> TimerCheckpoint:
        """The first numbers may stand alone: old brokers tell four. ValueError for less, or for negative ones."""
        if len(data) < 32:
            raise ValueError(f"{len(data)} bytes are no checkpoint of a timer")
        numbers = CHECKPOINT.unpack(data[: CHECKPOINT.size].ljust(CHECKPOINT.size, b"\0"))
        if min(numbers) < 0:
            raise ValueError("a checkpoint of a timer has no negative numbers")
        return cls(*numbers)

    def with_master(self, told: TimerCheckpoint) -> TimerCheckpoint:
        """That of a slave which has asked its master."""
        return replace(
            self,
            read_ms=told.read_ms,
            master_queue_offset=max(told.queue_offset, told.master_queue_offset),
            state_version=told.state_version,
            timestamp=told.timestamp,
            counter=told.counter,
        )


def load_checkpoint(path: Path, files: Files) -> TimerCheckpoint:
    """All zero if there is none. Raises OSError."""
    if not files.exists(path):
        return TimerCheckpoint()
    try:
        return TimerCheckpoint.of_bytes(files.read_bytes(path))
    except ValueError:
        return TimerCheckpoint()  # a power cut in its first write: nothing was safe before it


def save_checkpoint(path: Path, files: Files, checkpoint: TimerCheckpoint) -> None:
    """Write and sync the page. Blocking; raises OSError."""
    files.make_dirs(path.parent)
    is_new = not files.exists(path)
    file = files.open(path, size=CHECKPOINT_BYTES, create=True)
    try:
        file.pwrite(checkpoint.to_bytes(), 0)
        file.sync()
    finally:
        file.close()
    if is_new:
        files.sync_dir(path.parent)
        files.sync_dir(path.parent.parent)
