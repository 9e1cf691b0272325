"""Which records of the log belong to topics that were deleted since: a note for each such topic.

Owns        the notes (topic -> physical end of the log when it was deleted), their file, the question "is it dead?".
Must not know   queues, the index, who deletes topics, on which thread the file is written.

A topic's queues go when it is deleted, its records stay in the log until they expire. Whoever reads the log asks here:
a record of a noted topic that starts below the note is dead, one at or behind it belongs to the topic made anew.

Invariant: no note ends behind the log, so no record that is still to be written is dead.

Bytes: docs/internals/store_layout.md, "Deleted topics". Apache's broker does not know the file, and needs it not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from rocketlake.base.crc32 import crc32
from rocketlake.base.errors import StoreError
from rocketlake.base.files import Files
from rocketlake.base.logs import get_logger

__all__ = ["DamagedNotes", "Deletions"]

_log = get_logger(__name__)

_CURE = "move it away: messages of the topics that were deleted lately may come back, delete these topics again"


class DamagedNotes(StoreError):
    """The file of notes is there and is not what was written."""


class Deletions:
    """The notes of one store. All calls belong to the loop, except `write`."""

    def __init__(self, files: Files, path: Path) -> None:
        self.until = 0
        """No record at or behind this physical offset is dead; 0 without notes. Ask this first: it is one number."""
        self._disk = files
        self._path = path
        self._ends: dict[str, int] = {}
        self._written = b""

    @classmethod
    def at(cls, files: Files, path: Path) -> Deletions:
        """The notes of a store that is only looked at. Raises DamagedNotes, OSError."""
        found = cls(files, path)
        found._ends = _read(files, path)
        found._moved()
        return found

    @property
    def topics(self) -> Mapping[str, int]:
        """The notes: topic -> physical offset below which its records are dead."""
        return self._ends

    def is_dead(self, topic: str, physical_offset: int) -> bool:
        """Does the record of this topic that starts there belong to the topic before it was deleted?"""
        return physical_offset < self.until and physical_offset < self._ends.get(topic, 0)

    # -- changes -------------------------------------------------------------------------------------------------------

    def note(self, topics: Iterable[str], log_end: int) -> None:
        """These topics are deleted now, the log ends there. Safe only when `write` has returned."""
        self._ends.update({topic: log_end for topic in topics if log_end > 0})
        self._moved()

    def clamp(self, log_end: int) -> None:
        """A crash took the end of the log: what is written there from now on is no part of a deleted topic."""
        self._ends = {topic: min(end, log_end) for topic, end in self._ends.items()}
        self._moved()

    def forget_below(self, min_physical: int) -> None:
        """The log starts there now: notes that end at or below it speak of nothing any more."""
        self._ends = {topic: end for topic, end in self._ends.items() if end > min_physical}
        self._moved()

    def _moved(self) -> None:
        self.until = max(self._ends.values(), default=0)

    # -- the file ------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the file. A damaged one is put aside and reported: without notes the newest records of a topic win.

        Raises OSError.
        """
        try:
            self._ends = _read(self._disk, self._path)
            self._written = self.encode()
        except DamagedNotes as error:
            aside = self._path.with_name(self._path.name + ".broken")
            _log.error(
                "which topics were deleted is not known any more, the file is kept as %s; messages of topics deleted"
                " lately may come back, delete these topics again: %s",
                aside.name,
                error.what,
            )
            self._disk.rename(self._path, aside)
        self._moved()

    def encode(self) -> bytes:
        """The notes as they lie in the file."""
        text = _canonical(self._ends)
        return b'{"version":1,"checksum":%d,"topics":%s}\n' % (crc32(text), text)

    @property
    def changed(self) -> bool:
        """True when the file does not say what is noted here."""
        return self.encode() != self._written and bool(self._ends or self._written)

    def write(self, notes: bytes) -> None:
        """Replace the file by `notes` (of `encode`) and sync it. Blocking; may run on a worker. Raises OSError."""
        fresh = self._path.with_name(self._path.name + ".tmp")
        self._disk.write_bytes(fresh, notes)
        self._disk.rename(fresh, self._path)
        self._disk.sync_dir(self._path.parent)
        self._written = notes


def _read(files: Files, path: Path) -> dict[str, int]:
    """The notes in a file, none if there is none. Raises DamagedNotes, OSError."""
    if not files.exists(path):
        return {}
    try:
        found = json.loads(files.read_bytes(path))
        ends, checksum = found["topics"], found["checksum"]
        sound = isinstance(ends, dict) and all(type(end) is int and end >= 0 for end in ends.values())
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DamagedNotes(f"this is no file of notes: {error!r}", path=str(path), hint=_CURE) from error
    if not sound or checksum != crc32(_canonical(ends)):
        raise DamagedNotes("the checksum of the notes is wrong", path=str(path), hint=_CURE)
    return dict(ends)


def _canonical(ends: Mapping[str, int]) -> bytes:
    return json.dumps(ends, separators=(",", ":"), sort_keys=True).encode()
