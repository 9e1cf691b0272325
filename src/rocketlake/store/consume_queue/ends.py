"""How far each consume queue reached when that was last written down: a file of our own beside the store's.

Owns        the file `queueEnds`: its bytes, when the store writes, forgets and believes it.
Must not know   the log, how a queue is built again.

A queue whose last file, or whose whole folder, got lost looks sound. This file shows the loss. It is written at a clean
stop, at a start, and behind each thorough round. A broker that opens the store without it (Apache's) misses nothing.

Bytes: docs/internals/store_layout.md, "Queue ends".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rocketlake.base.crc32 import crc32
from rocketlake.base.disk.seam import Files
from rocketlake.base.logs import get_logger
from rocketlake.base.worker import InlineWorker, Worker
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.consume_queue.queue import ConsumeQueue
from rocketlake.store.consume_queue.table import ConsumeQueueTable

__all__ = ["DAMAGED_INDEX", "NO_INDEX", "SUSPECT", "EndsJob", "IndexEnd", "KnownEnds", "QueueEnds", "QueueKey"]

_log = get_logger(__name__)

QueueKey = tuple[str, int]
IndexEnd = tuple[int, int, PhysicalOffset]
"""Files of the key index, the sum of their counts, physical offset of the last entry (-1: there is none)."""
SUSPECT = PhysicalOffset(-2)
"""Instead of the end of a queue's last record: a reader found entries in it that are not its own."""
NO_INDEX: IndexEnd = (-1, 0, PhysicalOffset(-1))
"""Instead of what the key index holds: none is kept."""
DAMAGED_INDEX: IndexEnd = (-2, 0, PhysicalOffset(-1))
"""The same: it was found to be damaged."""
_UNKNOWN = PhysicalOffset(-1)
_NO_ENTRY = QueueOffset(0)
_HEAD = "rocketlake queue ends 1"


@dataclass(slots=True)
class KnownEnds:
    """What the file says."""

    is_exact: bool
    """Written at a clean stop; else every queue reached at least as far."""
    index: IndexEnd = (0, 0, PhysicalOffset(-1))
    queues: dict[QueueKey, tuple[QueueOffset, PhysicalOffset]] = field(default_factory=dict)
    """(max offset, end of the last record: -1 not known, SUSPECT) of each queue."""

    def forget_deleted(self, deleted: Mapping[str, PhysicalOffset]) -> None:
        """Forget ends that were noted before a deletion. `deleted`: topic -> end of the log at its deletion."""
        for key in [key for key, (_, end) in self.queues.items() if SUSPECT < end <= deleted.get(key[0], SUSPECT)]:
            del self.queues[key]


class QueueEnds:
    """The file, and the queues whose files a reader found damaged."""

    def __init__(self, path: Path, files: Files, table: ConsumeQueueTable, worker: Worker | None = None) -> None:
        """`worker` removes an outdated file; without one it is removed on this thread."""
        self._worker = worker or InlineWorker()
        self._path = path
        self._disk = files
        self._table = table
        self._suspects: dict[QueueKey, None] = {}
        self._known: dict[str, dict[int, tuple[QueueOffset, PhysicalOffset]]] = {}
        """What the file said at the start: after a crash nothing else is known to be safe."""
        self._forgotten = 0
        self.is_behind = False
        """True if a queue was synced in the round that wrote the file: the file may tell less of that queue."""

    def suspect(self, topic: str, queue_id: int) -> bool:
        """Have this queue built again by the next start; False if that was known already."""
        if (topic, queue_id) in self._suspects:
            return False
        self._suspects[topic, queue_id] = None
        return True

    @property
    def suspects(self) -> Collection[QueueKey]:
        """Queues that the next start builds again."""
        return self._suspects.keys()

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self) -> KnownEnds | None:
        """What was written last; None if there is nothing that can be believed. Raises OSError."""
        if not self._disk.exists(self._path):
            return None
        head, _newline, body = self._disk.read_bytes(self._path).partition(b"\n")
        if head.decode(errors="replace") != f"{_HEAD} {crc32(body)}":
            _log.warning("%s is damaged: the ends of the queues are not compared with it", self._path)
            return None
        lines = body.decode(errors="surrogateescape").split("\n")
        kind, *index = lines[0].split(" ")
        known = KnownEnds(kind == "exact", (int(index[0]), int(index[1]), PhysicalOffset(index[2])))
        for line in lines[1:-1]:
            queue_id, max_offset, end_physical, topic = line.split(" ", 3)
            known.queues[topic, int(queue_id)] = QueueOffset(max_offset), PhysicalOffset(end_physical)
            self._known.setdefault(topic, {})[int(queue_id)] = known.queues[topic, int(queue_id)]
        return known

    # -- writing -------------------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[str]:
        """A line for each queue with entries: how far the queue is safe now. The iterator may live over many turns."""
        for queue in list(self._table):
            yield self._line(queue)

    def _line(self, queue: ConsumeQueue) -> str:
        count, end = self._known.get(queue.topic, {}).get(queue.queue_id, (_NO_ENTRY, _UNKNOWN))
        if queue.is_flushed or count > queue.max_offset or count < queue.flushed_count:
            count, end = queue.flushed_count, queue.max_physical_offset if queue.is_flushed else _UNKNOWN
        if not count or "\n" in queue.topic:
            return ""
        if (queue.topic, queue.queue_id) in self._suspects:
            end = SUSPECT
        return f"{queue.queue_id} {count} {end} {queue.topic}\n"

    def write(self, lines: Collection[str], index: IndexEnd, *, is_exact: bool) -> None:
        """Replace the file. Blocking; may run on a worker. Raises OSError."""
        text = f"{'exact' if is_exact else 'least'} {index[0]} {index[1]} {index[2]}\n{''.join(lines)}"
        body = text.encode(errors="surrogateescape")
        fresh = self._path.with_name(self._path.name + ".tmp")
        self._disk.write_bytes(fresh, f"{_HEAD} {crc32(body)}\n".encode() + body)
        self._disk.rename(fresh, self._path)
        self._disk.sync_dir(self._path.parent)

    def forget(self, topics: Collection[str]) -> None:
        """These topics are deleted: the file on disk is outdated; a line of a topic made anew is not."""
        self._forgotten += 1
        self.is_behind = True
        for key in [key for key in self._suspects if key[0] in topics]:
            del self._suspects[key]
        for topic in topics:
            self._known.pop(topic, None)

    def cut(self) -> None:
        """The queues are about to lose entries for good: what was written of them is outdated. Raises OSError."""
        self._forgotten += 1
        self.is_behind = True
        self._known = {}
        self._remove()

    def remove_soon(self) -> None:
        """Have a worker remove the outdated file. The next round writes a new one."""
        self.is_behind = True
        self._worker.submit(self._remove, _removed)

    def _remove(self) -> None:
        if self._disk.exists(self._path):
            self._disk.remove(self._path)
            self._disk.sync_dir(self._path.parent)

    def job(self, index: IndexEnd) -> Iterator[EndsJob | None]:
        """For a round over all queues: looks at one after the other, and ends with the job that writes the file."""
        job = EndsJob(self, self._forgotten, index)
        for line in self.lines():
            job.lines.append(line)
            yield None
        yield job


def _removed(_result: None, error: Exception | None) -> None:
    if error is not None:
        _log.warning("outdated ends of queues cannot be removed, the next round writes them anew: %s", error)


class EndsJob:
    """One writing of the file: `run` on a worker, then `done` or `failed` on the loop, as with a FlushJob."""

    def __init__(self, owner: QueueEnds, forgotten: int, index: IndexEnd) -> None:
        self.lines: list[str] = []
        self._owner = owner
        self._forgotten = forgotten
        self._index = index

    @property
    def _is_outdated(self) -> bool:
        return self._forgotten != self._owner._forgotten

    def run(self) -> None:
        """Write the file. A failure is logged only: recovery works with the older one, more slowly."""
        if not self._is_outdated:
            try:
                self._owner.write(self.lines, self._index, is_exact=False)
            except OSError as error:
                _log.warning("the ends of the queues cannot be written down, it is tried again: %s", error)

    def done(self) -> None:
        """It was written, all queues are safe; but a topic may have been deleted meanwhile."""
        self._owner._known = {}
        if self._is_outdated:
            self._owner.remove_soon()

    def failed(self, error: Exception) -> None:
        """`run` raises nothing."""
