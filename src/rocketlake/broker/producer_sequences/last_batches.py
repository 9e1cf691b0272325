"""The last batch of each query in each topic: how far its tasks came in each queue.

Owns        the next number of each task in each queue, a digest of the messages below it, the order of forgetting.
Must not know   which batches are refused, files, clocks.

Invariant: the tasks of a batch belong together. They are forgotten together; then only the number of the batch is kept.
A later batch starts when the one before is done, so the table drops the earlier one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from rocketlake.codec.sequence_mark import SequenceMark

__all__ = ["LastBatch", "LastBatches", "TaskProgress"]

Key = tuple[str, str]
"""Topic and query."""
NEVER = -1


@dataclass(slots=True)
class TaskProgress:
    """One task (a producer). `queues`: queue id -> next number; `digests`: of the messages below it, if known."""

    layout: str
    queues: dict[int, int] = field(default_factory=dict)
    digests: dict[int, int] = field(default_factory=dict)

    def reach(self, queue_id: int, next_number: int, digest: int | None) -> None:
        """Note that all messages below this number are stored. A lower number than before changes nothing."""
        if next_number >= self.queues.get(queue_id, 0):
            self.queues[queue_id] = next_number
            if digest is None:
                self.digests.pop(queue_id, None)
            else:
                self.digests[queue_id] = digest


@dataclass(slots=True)
class LastBatch:
    """One batch. `used_at`: when its newest message was stored; `tasks`: by producer."""

    batch: int
    used_at: float = 0.0
    tasks: dict[str, TaskProgress] = field(default_factory=dict)


class LastBatches:
    """The last batches by topic and query, in the order of their last use."""

    def __init__(self) -> None:
        # No dicts: to find the first key, a dict walks over all keys that were deleted before it.
        self._batches: OrderedDict[Key, LastBatch] = OrderedDict()
        self._forgotten: OrderedDict[Key, int] = OrderedDict()
        self.task_count = 0

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[tuple[Key, LastBatch]]:
        return iter(self._batches.items())

    def find(self, topic: str, query: str) -> LastBatch | None:
        """The query's last batch in the topic; None if it was forgotten, or there was none."""
        return self._batches.get((topic, query))

    def oldest(self) -> tuple[Key, LastBatch] | None:
        """The batch whose last use is the longest ago."""
        return next(iter(self), None)

    def reach(
        self, topic: str, queue_id: int, mark: SequenceMark, next_number: int, digest: int | None, now: float
    ) -> None:
        """Note that all messages of the mark's task below this number are stored. An earlier batch is ignored."""
        key = topic, mark.query
        last = self._batches.get(key)
        if mark.batch < (self._forgotten.get(key, NEVER) + 1 if last is None else last.batch):
            return
        if last is None or last.batch < mark.batch:
            self.drop(key)
            last = self._batches[key] = LastBatch(mark.batch)
        self._batches.move_to_end(key)
        last.used_at = now
        task = last.tasks.get(mark.producer)
        if task is None:
            task = last.tasks[mark.producer] = TaskProgress(mark.layout)
            self.task_count += 1
        task.reach(queue_id, next_number, digest)

    # -- forgetting ----------------------------------------------------------------------------------------------------

    @property
    def forgotten(self) -> OrderedDict[Key, int]:
        """The number of the last batch of each query whose tasks are forgotten, in the order of forgetting."""
        return self._forgotten

    def forget(self, key: Key) -> None:
        """Forget the tasks of the query's batch; keep its number."""
        batch = self._batches[key].batch
        self.drop(key)
        self._forgotten[key] = batch

    def drop(self, key: Key) -> bool:
        """Forget this query in this topic. True if the table knew it."""
        last = self._batches.pop(key, None)
        self.task_count -= 0 if last is None else len(last.tasks)
        return self._forgotten.pop(key, None) is not None or last is not None

    def drop_topic(self, topic: str) -> bool:
        """Forget every query in this topic. True if the table knew one."""
        keys = [key for key in (*self._batches, *self._forgotten) if key[0] == topic]
        return any([self.drop(key) for key in keys])
