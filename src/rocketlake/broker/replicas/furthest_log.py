"""How far the furthest log of a group goes, for brokers whose controller knows nothing of any log yet.

Owns        the position and its text, the file that keeps it, whether a log reaches that far.
Must not know   how a log is read, controllers, who writes the file (rebuild.py).

The first broker that asks a new register becomes the master, and all others take back what it does not have. So the
stores of a group whose register is lost are told how far the furthest of their logs goes, and only a broker whose log
reaches that far asks to be the first. The file goes when there is a master.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError, UsageError

__all__ = ["FILE_NAME", "FurthestLog", "LogPosition", "position_from_text"]

FILE_NAME = "furthestLog"
_TEXT = re.compile(r"(-?\d{1,10}):(\d{1,19})", re.ASCII)


class LogPosition(NamedTuple):
    """Where a log ends. The newer epoch goes further, in one epoch the longer log: so elections compare logs."""

    epoch: int
    """Of the last record; -1 of a log that is empty, or that no epoch has begun in."""
    end: int
    """Physical offset behind the last record."""

    def __str__(self) -> str:
        return f"{self.epoch}:{self.end}"


def position_from_text(text: str) -> LogPosition:
    """`7:123456`, as `str` writes it. Raises UsageError."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"{text[:60]!r} is no position of a log",
            hint="write EPOCH:END, as `rocketlake replicas rebuild STORE --dry-run` prints it",
        )
    return LogPosition(int(found[1]), int(found[2]))


class FurthestLog:
    """The file of one store. All methods but `lacks` block, and raise OSError when the disk refuses."""

    def __init__(self, folder: Path, files: Files) -> None:
        self.position: LogPosition | None = None
        """None: this broker waits for no other one."""
        self._path = folder / FILE_NAME
        self._files = files

    def load(self) -> None:
        """Read the file, if there is one. Raises StoreError."""
        if not self._files.exists(self._path):
            return
        try:
            self.position = position_from_text(self._files.read_bytes(self._path).decode(errors="replace"))
        except UsageError as error:
            raise StoreError(
                error.what, path=str(self._path), hint="run `rocketlake replicas rebuild` on this store again"
            ) from None

    def note(self, position: LogPosition) -> None:
        """Wait for a log that goes so far."""
        fresh = self._path.with_name(self._path.name + ".tmp")
        self._files.write_bytes(fresh, str(position).encode())
        self._files.rename(fresh, self._path)
        self._files.sync_dir(self._path.parent)
        self.position = position

    def forget(self) -> None:
        """There is a master: what its log lacks is decided."""
        if self.position is not None:
            self._files.remove(self._path)
            self._files.sync_dir(self._path.parent)
            self.position = None

    def lacks(self, own: LogPosition, group: str) -> str:
        """Why a broker whose log ends at `own` must not be the first master of its group; "" if it may."""
        if self.position is None or own >= self.position:
            return ""
        return (
            f"the log of this broker goes to {own}, and one of its group to {self.position}: it waits for that one."
            " Cure: start the broker with that log; if it is lost for good,"
            f" `rocketlake replicas elect {group} --to ID` takes one that is there"
        )
