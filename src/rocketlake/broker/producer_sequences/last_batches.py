"""The last batch of each query in each topic: how far its tasks came in each queue.

Owns        the next number of each task in each queue, a digest of what is below it, the order of forgetting.
Must not know   what is refused, files, what a clock says.

Invariant: the tasks of a batch belong together. They are forgotten together, and which batch it was is remembered then.
A later batch begins when the one before is through, so nothing of that is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from rocketlake.broker.producer_sequences.mark import SequenceMark

__all__ = ["LastBatch", "LastBatches", "TaskProgress"]

Key = tuple[str, str]
"""Topic and query."""
NEVER = -1


@dataclass(slots=True)
class TaskProgress:
    """One task (a producer). `queues`: queue id -> next sequence number; `digests`: of what is below it, if known."""

    layout: str
    queues: dict[int, int] = field(default_factory=dict)
    digests: dict[int, int] = field(default_factory=dict)

    def reach(self, queue_id: int, next_number: int, digest: int | None) -> None:
        """All messages below this number are stored; never goes back."""
        if next_number >= self.queues.get(queue_id, 0):
            self.queues[queue_id] = next_number
            if digest is None:
                self.digests.pop(queue_id, None)
            else:
                self.digests[queue_id] = digest


@dataclass(slots=True)
class LastBatch:
    """One batch. `used_at`: when a message of it was stored last; `tasks`: by producer."""

    batch: int
    used_at: float = 0.0
    tasks: dict[str, TaskProgress] = field(default_factory=dict)


class LastBatches:
    """By topic and query, those used last are last."""

    def __init__(self) -> None:
        # No dicts: finding the first key after deletions walks over all that is gone.
        self._batches: OrderedDict[Key, LastBatch] = OrderedDict()
        self._forgotten: OrderedDict[Key, int] = OrderedDict()
        self.task_count = 0

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[tuple[Key, LastBatch]]:
        return iter(self._batches.items())

    def find(self, topic: str, query: str) -> LastBatch | None:
        """What is known of the query's last batch."""
        return self._batches.get((topic, query))

    def oldest(self) -> tuple[Key, LastBatch] | None:
        """The batch that was used before all others."""
        return next(iter(self), None)

    def reach(
        self, topic: str, queue_id: int, mark: SequenceMark, next_number: int, digest: int | None, now: float
    ) -> None:
        """All messages of the mark's task below this number are stored. An earlier batch is passed over."""
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
        """Which batch was the last one of queries of which no more is known; those forgotten last are last."""
        return self._forgotten

    def forget(self, key: Key) -> None:
        """Remember only which batch it was."""
        batch = self._batches[key].batch
        self.drop(key)
        self._forgotten[key] = batch

    def drop(self, key: Key) -> bool:
        """Remember nothing of this query in this topic. Was there something?"""
        last = self._batches.pop(key, None)
        self.task_count -= 0 if last is None else len(last.tasks)
        return self._forgotten.pop(key, None) is not None or last is not None

    def drop_topic(self, topic: str) -> bool:
        """Remember nothing of this topic. Was there something?"""
        keys = [key for key in (*self._batches, *self._forgotten) if key[0] == topic]
        return any([self.drop(key) for key in keys])
