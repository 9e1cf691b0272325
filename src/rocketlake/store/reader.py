"""Read a store folder without its broker: ours or Apache's, copied or live.

Owns        which topics, queues and records a folder holds; where its log ends, and whether it ends torn.
Must not know   how a store is written or recovered. Takes no lock, writes nothing.

A live folder changes while it is read: records that were found stay readable, `refresh` finds new ones. The newest
entries of a queue are in its broker's memory; they come into the folder when the broker flushes its queues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.consume_queue.entry import ENTRY_SIZE, is_filler, unpack_entries, valid_count
from rocketlake.store.dispatch_scan import BLANK, END, DispatchEntry, scan
from rocketlake.store.offset_files import OffsetFiles, queue_folders
from rocketlake.store.paths import StorePaths

__all__ = ["LogEnd", "StoreReader"]

_START = PhysicalOffset(0)
_NOWHERE = PhysicalOffset(-1)
_CHUNK_BYTES = 4 * 1024 * 1024
_CHUNK_ENTRIES = 4096


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the sound records of a commit log end. `torn` describes the bytes behind; "" without any."""

    physical_offset: PhysicalOffset
    path: str
    torn: str = ""


class StoreReader:
    """A store folder to be read. Raises StoreError when there is no commit log in it."""

    def __init__(
        self, root: Path, *, commit_log: Path | None = None, files: Files | None = None, with_gaps: bool = False
    ) -> None:
        """`commit_log` if it lies elsewhere (storePathCommitLog). `with_gaps`: records before gaps, too."""
        self.paths = StorePaths(root, commit_log)
        self._disk: Files = files or PosixFiles()
        if not self._disk.is_dir(self.paths.commit_log):
            hint = "give the broker's storePathRootDir"
            if self._disk.is_dir(StorePaths(root / "store").commit_log):
                hint = f"give {root / 'store'}: what `rocketlake up --dir` names holds the store as a part"
            raise StoreError("no commit log here", path=str(self.paths.commit_log), hint=hint)
        self.log = OffsetFiles(self.paths.commit_log, self._disk, with_gaps=with_gaps)
        self._queues: dict[tuple[str, int], OffsetFiles] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look again for new files and queues. Raises OSError."""
        self.log.refresh()
        for topic, queue_id, folder in queue_folders(self.paths.consume_queue, self._disk):
            if (known := self._queues.get((topic, queue_id))) is not None:
                known.refresh()
            else:
                self._queues[topic, queue_id] = OffsetFiles(folder, self._disk)

    def close(self) -> None:
        """Close all files; records already given out stay valid."""
        self.log.close()
        for queue in self._queues.values():
            queue.close()

    # -- queues --------------------------------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """Topics that have a queue."""
        return sorted({topic for topic, _queue_id in self._queues})

    def queue_ids(self, topic: str) -> list[int]:
        """Queue ids of a topic."""
        return sorted(queue_id for known, queue_id in self._queues if known == topic)

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(first, behind the last) queue offset whose record is there; (0, 0) for an unknown queue.

        In a copy, queue files may reach further than the log that was copied before them; that part is left out.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return 0, 0
        low, end = self.first_offset(topic, queue_id), self._written_end(queue)
        while end > low and self.record(self._physical(queue, end - 1)) is None:
            end -= 1
        return low, end

    def first_offset(self, topic: str, queue_id: int) -> int:
        """First queue offset whose record is not below the start of the log; 0 for an unknown queue."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return 0
        low, high = queue.start // ENTRY_SIZE, self._written_end(queue)
        while low < high:
            middle = (low + high) // 2
            if self._physical(queue, middle) < self.log.start:
                low = middle + 1
            else:
                high = middle
        return low

    def queue_files(self, topic: str, queue_id: int) -> OffsetFiles | None:
        """The files of a queue, None for an unknown one."""
        return self._queues.get((topic, queue_id))

    def written_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(first, behind the last) queue offset that the queue's files name, whether or not the records are there."""
        queue = self._queues.get((topic, queue_id))
        return (0, 0) if queue is None else (self.first_offset(topic, queue_id), self._written_end(queue))

    def _written_end(self, queue: OffsetFiles) -> int:
        offset = queue.file_start(queue.end) // ENTRY_SIZE
        while data := queue.read(offset * ENTRY_SIZE, _CHUNK_ENTRIES * ENTRY_SIZE):
            written = valid_count(data)
            offset += written
            if written * ENTRY_SIZE < len(data):
                break
        return offset

    def _physical(self, queue: OffsetFiles, offset: int) -> PhysicalOffset:
        """Physical offset of an entry, -1 for none (and for a filler)."""
        data = queue.read(offset * ENTRY_SIZE, ENTRY_SIZE)
        if len(data) < ENTRY_SIZE:
            return _NOWHERE
        physical_offset, size, _tag_code = unpack_entries(data)[0]
        return _NOWHERE if is_filler(physical_offset, size) else physical_offset

    def entries(
        self, topic: str, queue_id: int, start: int, end: int
    ) -> Iterator[tuple[int, PhysicalOffset, int, int]]:
        """(queue offset, physical offset, size, tag code) of the entries in [start, end), fillers left out."""
        queue = self._queues.get((topic, queue_id))
        offset = start
        while queue is not None and offset < end:
            data = queue.read(offset * ENTRY_SIZE, min(end - offset, _CHUNK_ENTRIES) * ENTRY_SIZE)
            found = unpack_entries(data[: valid_count(data) * ENTRY_SIZE])
            if not found:
                return
            for physical_offset, size, tag_code in found:
                if not is_filler(physical_offset, size):
                    yield offset, physical_offset, size, tag_code
                offset += 1

    # -- records -------------------------------------------------------------------------------------------------------

    def records(self, topic: str, queue_id: int, start: int, end: int) -> Iterator[memoryview]:
        """The whole records of a range inside `queue_range`, in order; decode them with codec.record.

        Raises StoreError for a record that is not sound.
        """
        for offset, physical_offset, _size, _tag_code in self.entries(topic, queue_id, start, end):
            record = self.record(physical_offset)
            if record is None or not _is_of(record, physical_offset, topic, queue_id):
                raise StoreError(
                    f"the record of offset {offset} in queue {queue_id} of {topic} is damaged or gone",
                    path=str(self.log.path(physical_offset)),
                    offset=physical_offset,
                )
            yield record

    def record(self, physical_offset: PhysicalOffset) -> memoryview | None:
        """The whole record at a physical offset; None if no sound one starts there."""
        size = int.from_bytes(self.log.read(physical_offset, 4), "big")
        view = self.log.view(physical_offset, size)
        found, _taken, _status = scan(view, physical_offset, True, ())
        return view if found else None

    def scan_log(self, start: PhysicalOffset = _START) -> Iterator[DispatchEntry]:
        """Every sound record from physical offset `start` (where a record starts) to the end of the log."""
        for entries, _end in self._walk(max(start, self._log_start)):
            yield from entries

    def log_end(self, start: PhysicalOffset | None = None) -> LogEnd:
        """Where the log ends, found by reading from `start` (where a record starts; the last used file if None)."""
        position = self._last_used_file() if start is None else max(start, self._log_start)
        for _entries, end in self._walk(position):
            position = end
        return LogEnd(position, str(self.log.path(position)), self._torn_text(position))

    @property
    def _log_start(self) -> PhysicalOffset:
        return PhysicalOffset(self.log.start)

    def _last_used_file(self) -> PhysicalOffset:
        for start in map(PhysicalOffset, reversed(self.log.starts)):
            if self.record(start) is not None:
                return start
        return self._log_start

    def _walk(self, position: PhysicalOffset) -> Iterator[tuple[list[DispatchEntry], PhysicalOffset]]:
        """(records, where they end), chunk by chunk, up to the first place where no sound record starts."""
        size = _CHUNK_BYTES
        while view := self.log.view(position, size):
            entries, taken, status = scan(view, position, True, ())
            position += taken
            if status == BLANK:
                position = PhysicalOffset(self.log.file_start(position) + self.log.file_size)
            yield entries, position
            if status == END and taken == 0 and len(view) == size:
                size *= 2  # one record longer than the chunk
            elif status not in (BLANK, END) or (status == END and taken == 0):
                return

    def _torn_text(self, position: PhysicalOffset) -> str:
        while not self.log.is_zero_from(position) and (chunk := self.log.read(position, _CHUNK_BYTES)):
            if used := chunk.lstrip(b"\0"):
                first = position + len(chunk) - len(used)
                return f"bytes that are no sound record lie behind it, the first at {first}"
            position += len(chunk)
        return ""


def _is_of(record: memoryview, physical_offset: PhysicalOffset, topic: str, queue_id: int) -> bool:
    """True if a record says of itself that it is of this queue. A damaged queue may name records of others."""
    found, _taken, _status = scan(record, physical_offset, False, ())
    return bool(found) and (found[0].topic, found[0].queue_id) == (topic, queue_id)
