"""Runs of plain copies of messages that are due.

Owns        which topics take plain copies, how a run of them is stored and counted.
Must not know   which messages are plain (due_run.pyx), what is due.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.broker.delay import due_run
from rocketlake.broker.delay.delivery import nobody_waits
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.positions import PhysicalOffset
from rocketlake.model.topic import TopicFilterType
from rocketlake.store import log_window
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutResult, PutStatus
from rocketlake.store.timer.unit_stack import UnitStack

__all__ = ["DueRuns"]

_RUN_MESSAGES_MAX = 256
_RUN_BYTES_MAX = 256 * 1024


class DueRuns:
    """Stores plain copies."""

    def __init__(
        self, store: MessageStore, topics: TopicTable, count_put: Callable[[str, int, int], None], *, precision_ms: int
    ) -> None:
        self._store = store
        self._topics = topics
        self._count_put = count_put
        log = log_window.LogWindow(store.fetch.window)
        self._cutter = due_run.DueRunCutter(log, self._find, precision_ms)
        topics.on_change.append(lambda _name: self._cutter.forget())

    def put(self, units: UnitStack, above: int, taken_back: frozenset[bytes]) -> int:
        """Store the copies of the next units and take them away; returns the log offset
        behind the last copy, 0 if the next one is not plain.

        `above`: units below this log offset are not plain; `taken_back`: nor are these unique keys.
        """
        above = max(above, self._store.deletions.until)
        found = self._cutter.cut(units.rows, above, taken_back, _RUN_MESSAGES_MAX, _RUN_BYTES_MAX)
        if found is None:
            return 0
        run, count, counts = found
        if not self._store.put_run(run):
            return 0
        units.drop(count)
        for topic, (messages, size) in counts.items():
            self._count_put(topic, messages, size)
        end = PhysicalOffset(run.physical_offset + run.size)
        result = PutResult(PutStatus.OK, run.physical_offset, run.size, next_offset=end, count=count)
        self._store.when_durable(result, wait=False, done=nobody_waits)
        return end

    def _find(self, name: str) -> due_run.DueTopic | None:
        topic = self._topics.get(name)
        if topic is None or self._topics.is_system(name) or topic.filter_type is TopicFilterType.MULTI_TAG:
            return None
        try:
            return due_run.DueTopic(name, topic.read_queues)
        except ValueError:
            return None
