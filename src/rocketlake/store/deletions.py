"""Which records of the log belong to topics that were deleted since: a note for each such topic.

Owns        the notes (topic -> physical end of the log when it was deleted), their file, which records are dead.
Must not know   queues, the index, why a topic is deleted, on which thread the file is written.

A topic's queues go when it is deleted, its records stay in the log until they expire. A reader of the log asks here:
a record of a noted topic that starts below the note is dead, one at or behind it belongs to the topic made anew.

A deletion may not have been noted: a crash came first, or another broker deleted the topic. It shows when a record with
queue offset 0 follows others of its queue. That queue gets a note of its own: the place of that record. At the next
start the record may be damaged, and no other record of the log tells the old ones from the new ones.

Invariant: no note ends behind the log, so no record that is still to be written is dead.

Bytes: docs/internals/store_layout.md, "Deleted topics". Apache's broker does not know the file and works without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path

from rocketlake.base.crc32 import crc32
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.base.logs import get_logger
from rocketlake.model.positions import PhysicalOffset

__all__ = ["DamagedNotes", "Deletions"]

_log = get_logger(__name__)

_START = PhysicalOffset(0)
_CURE = "move it away: messages of the topics that were deleted lately may come back, delete these topics again"


class DamagedNotes(StoreError):
    """The file of notes is damaged."""


class Deletions:
    """The notes of one store. All calls belong to the loop, except `write`."""

    def __init__(self, files: Files, path: Path) -> None:
        self.until = _START
        """No record at or behind this physical offset is dead; 0 without notes. Ask this first: it is one number."""
        self._disk = files
        self._path = path
        self._ends: dict[str, PhysicalOffset] = {}
        self._begins: dict[str, dict[int, PhysicalOffset]] = {}
        self._written = b""
        self.edition = 0
        """Grows with every topic that is deleted."""
        self.begun_anew: set[tuple[str, int]] = set()
        """Queues that were found since the start to begin anew."""

    @classmethod
    def at(cls, files: Files, path: Path) -> Deletions:
        """The notes of a store that is only looked at. Raises DamagedNotes, OSError."""
        found = cls(files, path)
        found._ends, found._begins = _read(files, path)
        found._moved()
        return found

    @property
    def topics(self) -> Mapping[str, PhysicalOffset]:
        """The notes: topic -> physical offset below which its records are dead."""
        return self._ends

    @property
    def queues(self) -> Mapping[str, Mapping[int, PhysicalOffset]]:
        """Topic -> queue id -> physical offset at which this queue began anew."""
        return self._begins

    def is_dead(self, topic: str, physical_offset: PhysicalOffset, queue_id: int = -1) -> bool:
        """True if the record of this topic at `offset` belongs to the topic as it was before its deletion.

        Without a queue id only notes of whole topics count.
        """
        return physical_offset < self.until and physical_offset < self.begin_of(topic, queue_id)

    def begin_of(self, topic: str, queue_id: int) -> PhysicalOffset:
        """No record of the queue, as it is now, lies before this physical offset."""
        begin = self._ends.get(topic, _START)
        return max(begin, self._begins[topic].get(queue_id, _START)) if topic in self._begins else begin

    # -- changes -------------------------------------------------------------------------------------------------------

    def note(self, topics: Iterable[str], log_end: PhysicalOffset) -> None:
        """These topics are deleted now, the log ends there. Safe only when `write` has returned."""
        for topic in topics:
            self._begins.pop(topic, None)
            if log_end > 0:
                self._ends[topic] = log_end
        self.edition += 1
        self._moved()

    def begins_anew(self, topic: str, queue_id: int, physical_offset: PhysicalOffset) -> None:
        """The first record of a queue lies there; older ones of it are of a topic that was deleted."""
        self._begins.setdefault(topic, {})[queue_id] = physical_offset
        self.begun_anew.add((topic, queue_id))
        self._moved()

    def clamp(self, log_end: PhysicalOffset) -> None:
        """The log has lost its end: records that are written there from now on belong to no deleted topic."""
        self._change(lambda end: min(end, log_end))

    def forget_below(self, min_physical: PhysicalOffset) -> None:
        """The log starts there now: notes that end at or below it are of no record any more."""
        self._change(lambda end: end if end > min_physical else _START)

    def _change(self, changed: Callable[[PhysicalOffset], PhysicalOffset]) -> None:
        """Give each note its new end; a note with the new end 0 is removed."""
        self._ends = {topic: end for topic, old in self._ends.items() if (end := changed(old))}
        for topic, queues in list(self._begins.items()):
            self._begins[topic] = {queue_id: end for queue_id, old in queues.items() if (end := changed(old))}
            if not self._begins[topic]:
                del self._begins[topic]
        self._moved()

    def _moved(self) -> None:
        ends = chain(self._ends.values(), *(queues.values() for queues in self._begins.values()))
        self.until = max(ends, default=_START)

    # -- the file ------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the file. A damaged one is put aside and reported: without notes the newest records of a topic win.

        Raises OSError.
        """
        try:
            self._ends, self._begins = _read(self._disk, self._path)
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
        topics, queues = _canonical(self._ends), _canonical(self._begins)
        if not self._begins:
            return b'{"version":1,"checksum":%d,"topics":%s}\n' % (crc32(topics), topics)
        return b'{"version":1,"checksum":%d,"topics":%s,"queues":%s}\n' % (crc32(topics + queues), topics, queues)

    @property
    def changed(self) -> bool:
        """True when the file differs from the notes in memory."""
        return self.encode() != self._written and bool(self._ends or self._begins or self._written)

    def write(self, notes: bytes) -> None:
        """Replace the file by `notes` (of `encode`) and sync it. Blocking; may run on a worker. Raises OSError."""
        fresh = self._path.with_name(self._path.name + ".tmp")
        self._disk.write_bytes(fresh, notes)
        self._disk.rename(fresh, self._path)
        self._disk.sync_dir(self._path.parent)
        self._written = notes


def _read(files: Files, path: Path) -> tuple[dict[str, PhysicalOffset], dict[str, dict[int, PhysicalOffset]]]:
    """The notes in a file, of topics and of queues; none if there is none. Raises DamagedNotes, OSError."""
    if not files.exists(path):
        return {}, {}
    try:
        found = json.loads(files.read_bytes(path))
        ends, checksum, queues = found["topics"], found["checksum"], found.get("queues")
        text = _canonical(ends) + (b"" if queues is None else _canonical(queues))
        begins = {topic: _by_number(each) for topic, each in (queues or {}).items()}
        is_sound = all(
            type(end) is int and end >= 0 for end in chain(ends.values(), *map(dict.values, begins.values()))
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedNotes(f"this is no file of notes: {error!r}", path=str(path), hint=_CURE) from error
    if not is_sound or checksum != crc32(text):
        raise DamagedNotes("the checksum of the notes is wrong", path=str(path), hint=_CURE)
    return dict(ends), begins


def _by_number(places: Mapping[str, PhysicalOffset]) -> dict[int, PhysicalOffset]:
    return {int(queue_id): place for queue_id, place in places.items()}


def _canonical(notes: Mapping[str, object]) -> bytes:
    return json.dumps(notes, separators=(",", ":"), sort_keys=True).encode()
