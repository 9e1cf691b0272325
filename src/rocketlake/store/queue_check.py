"""Which consume queues lack entries at a start, by the ends that were written down.

Owns        the comparison of each queue with `queueEnds`, which queues are built again.
Must not know   how the log is walked, how an entry is made.

Rules: docs/internals/store_layout.md, "Queue ends".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rocketlake.base.logs import get_logger
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.store.consume_queue.ends import SUSPECT, KnownEnds, QueueKey
from rocketlake.store.consume_queue.entry import is_filler
from rocketlake.store.consume_queue.queue import ConsumeQueue
from rocketlake.store.consume_queue.table import ConsumeQueueTable

__all__ = ["QueueCheck"]

_log = get_logger(__name__)

_START = PhysicalOffset(0)
_NONE = QueueOffset(0)
_NAMED_MAX = 20


class QueueCheck:
    """The queues that must be built again, and from where on."""

    def __init__(self, table: ConsumeQueueTable, distrust: Callable[[], object]) -> None:
        """`distrust` is called before a queue loses entries: after a crash the walk must bring them back."""
        self._table = table
        self._distrust = distrust
        self._reach: dict[QueueKey, QueueOffset] = {}
        self.wanted: dict[QueueKey, PhysicalOffset] = {}
        """Queue -> physical offset from which on its records must be looked for in the log."""

    @property
    def start(self) -> PhysicalOffset | None:
        """Physical offset at which the walk must start, None if nothing is wanted."""
        return min(self.wanted.values(), default=None)

    def want_rest(self, queues: Sequence[ConsumeQueue], reason: str) -> None:
        """These queues lack the entries behind their end."""
        for queue in queues:
            self._want(queue, reason)

    def compare(self, known: KnownEnds, *, is_clean: bool) -> None:
        """Find the queues that are not as they were. Raises OSError."""
        self._table.were_given_out({key: count for key, (count, _end_physical) in known.queues.items()})
        for key, (count, end_physical) in known.queues.items():
            queue = self._table.find(*key)
            if queue is None:
                self._say(key, "its files are gone")
                self.wanted[key] = _START
                self._reach[key] = count
            elif end_physical == SUSPECT:
                self._anew(queue, "a reader found entries in it that are not its own")
                self._reach[key] = count
            elif known.is_exact and is_clean:
                self._compare_exactly(queue, key, count, end_physical)
            elif queue.max_offset < count:
                self._compare_shorter(queue, key, count, end_physical)

    def want_begins(self, log_min: PhysicalOffset) -> None:
        """Build the queues again whose oldest files may be lost. Raises OSError.

        Files are dropped up to the one with the first record that is still there. So a queue that begins behind the
        start of the log, at the first entry of a file that is not number 0, may have lost files. Of those that have not
        (one in as many as a file has entries) the walk makes the same again.
        """
        for queue in list(self._table):
            entry = queue.first_entry if queue.files and queue.files[0].start else None
            if entry is not None and entry[0] > log_min and not is_filler(entry[0], entry[1]):
                key, count = (queue.topic, queue.queue_id), queue.max_offset
                self._anew(queue, f"it begins at {queue.files[0].path}, files before it may be lost")
                self._reach[key] = max(count, self._reach.get(key, _NONE))

    def _compare_exactly(
        self, queue: ConsumeQueue, key: QueueKey, count: QueueOffset, end_physical: PhysicalOffset
    ) -> None:
        if queue.max_offset < count:
            self._compare_shorter(queue, key, count, end_physical)
        elif queue.max_offset > count:
            self._anew(queue, f"it ends at {queue.max_offset}, it was {count} at the last stop")
        elif queue.max_physical_offset != end_physical:
            self._anew(queue, f"its last record ends at {queue.max_physical_offset}, it was {end_physical}")
            self._reach[key] = count

    def _compare_shorter(
        self, queue: ConsumeQueue, key: QueueKey, count: QueueOffset, end_physical: PhysicalOffset
    ) -> None:
        if queue.max_physical_offset != end_physical:  # else only fillers are gone, as always
            self._want(queue, f"it ends at {queue.max_offset}, it was {count}")
        self._reach[key] = count

    def _want(self, queue: ConsumeQueue, reason: str) -> None:
        if not queue.is_whole():
            self._anew(queue, reason)
            return
        key = queue.topic, queue.queue_id
        self._say(key, reason)
        self.wanted[key] = min(self.wanted.get(key, queue.max_physical_offset), queue.max_physical_offset)

    def _anew(self, queue: ConsumeQueue, reason: str) -> None:
        """Drop all entries of a queue, to be built anew: some of them may not be its own."""
        key = queue.topic, queue.queue_id
        self._say(key, reason)
        self._distrust()
        self._table.clear(queue)
        self.wanted[key] = _START

    def _say(self, key: QueueKey, reason: str) -> None:
        if key in self.wanted:
            return
        if len(self.wanted) < _NAMED_MAX:
            _log.error("queue %d of %s is damaged, it is built again from the log: %s", key[1], key[0], reason)
        elif len(self.wanted) == _NAMED_MAX:
            _log.error("more queues are damaged, and are built again from the log")

    def finish(self, begun_anew: Collection[QueueKey]) -> None:
        """After the walk: offsets that were given out are not given out again. Raises OSError, StoreError.

        `begun_anew`: queues that turned out to be those of a topic made again; their ends from before are void.
        """
        self._table.were_given_out({})
        for key, count in self._reach.items():
            if key not in begun_anew:
                self._table.reach(*key, count)
        if self.wanted:
            _log.warning("%d consume queues were built again from the log", len(self.wanted))
