"""The queue of each row.

Owns        the rule: brokerName and queueId, else shardingKey, else blocks of rows by turns; the layout of a topic.
Must not know   how requests are sent.

The queue of a row depends only on the row, its number in the task, the task and the topic's queues: a repeated attempt
sends each row to the same queue, however Spark cuts the rows into pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rocketlake.base.errors import UsageError
from rocketlake.client.wire import java_hash
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import check_topic, is_sendable_topic
from rocketlake.spark.sink.arrow_rows import ArrowRows
from rocketlake.spark.sink.faults import Fault

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BLOCK_ROWS", "QueuedRows", "Router", "TopicQueues"]

BLOCK_ROWS = 1024
"""So many rows one after the other go to one queue when no column chooses the queue."""
_NO_QUEUE, _ANY_QUEUE = -1, -2


@dataclass(frozen=True, slots=True)
class TopicQueues:
    """The queues of a topic that are written to, in order."""

    topic: str
    queues: tuple[MessageQueue, ...]

    @property
    def layout(self) -> str:
        """A digest of all inputs of the rule: equal layouts give each row the same queue."""
        names = ",".join(f"{queue.broker_name}:{queue.queue_id}" for queue in self.queues)
        return blake2b(f"{self.topic} {BLOCK_ROWS} {names}".encode(), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True)
class QueuedRows:
    """Rows of a batch that go to one queue, by their numbers, in their order. `is_free`: no column chose the queue."""

    target: TopicQueues
    queue: MessageQueue
    rows: NDArray[np.int32]
    is_free: bool


class Router:
    """Spreads the rows of one task."""

    def __init__(self, topic: str, first_turn: int, find: Callable[[str], TopicQueues]) -> None:
        """`topic`: of all rows, or ""; `find` gives the queues of a topic, or raises NoRoute."""
        self._topic = topic
        self._first_turn = first_turn
        self._find = find
        self._known: dict[str, TopicQueues] = {}

    def queues(self, topic: str) -> TopicQueues:
        """The queues of a topic, the same ones for the whole task."""
        found = self._known.get(topic)
        if found is None:
            found = self._known[topic] = self._find(topic)
        return found

    def find_faults(self, rows: ArrowRows) -> None:
        """Mark the rows that have no topic or no queue."""
        topics, numbers = self._topics(rows)
        if self._topic == "":
            good = np.array([_is_topic(topic) for topic in topics] + [False])
            rows.fault(~good[numbers], Fault.NO_TOPIC)
        for topic, where in _each(topics, numbers, rows.faults == Fault.NONE):
            chosen = self._chosen(rows, self.queues(topic))
            if chosen is not None:
                wrong = np.zeros(rows.count, bool)
                wrong[where] = chosen[where] == _NO_QUEUE
                rows.fault(wrong, Fault.NO_QUEUE)

    def spread(self, rows: ArrowRows, which: NDArray[np.bool_]) -> Iterator[QueuedRows]:
        """The rows of this mask, which have no fault, by queue."""
        topics, numbers = self._topics(rows)
        for topic, where in _each(topics, numbers, which):
            target = self.queues(topic)
            places, is_free = self._places(rows, target)
            wanted = places[where]
            for place in np.unique(wanted):
                yield QueuedRows(target, target.queues[place], where[wanted == place].astype(np.int32), is_free=is_free)

    def by_turns(self, topic: str, number: int) -> tuple[TopicQueues, MessageQueue]:
        """The queue of the row with this number in the task, if no column chooses it."""
        target = self.queues(topic)
        return target, target.queues[(self._first_turn + number // BLOCK_ROWS) % len(target.queues)]

    def _topics(self, rows: ArrowRows) -> tuple[Sequence[str], NDArray[np.int64]]:
        """The topics of the rows, and for each row the number of its topic among them; -1: none."""
        if self._topic:
            return [self._topic], np.zeros(rows.count, np.int64)
        return _numbered(rows.column("topic"), rows.count)

    def _places(self, rows: ArrowRows, target: TopicQueues) -> tuple[NDArray[np.int64], bool]:
        """For each row the number of its queue in this topic, and whether the turn alone chose it."""
        count = len(target.queues)
        numbers = np.arange(rows.first_number, rows.first_number + rows.count)
        places = (self._first_turn + numbers // BLOCK_ROWS) % count
        sharding, chosen = rows.column("shardingKey"), self._chosen(rows, target)
        if sharding is not None:
            keys, key_of = _numbered(sharding, rows.count)
            # As client.producer.queue_choice.by_key, and Java's SelectMessageQueueByHash.
            by_key = np.array([abs(java_hash(key)) % count for key in keys] + [0])
            places = np.where(np.array([bool(key) for key in keys] + [False])[key_of], by_key[key_of], places)
        if chosen is not None:
            places = np.where(chosen >= 0, chosen, places)
        return places, sharding is None and chosen is None

    @staticmethod
    def _chosen(rows: ArrowRows, target: TopicQueues) -> NDArray[np.int64] | None:
        """For each row the number of the queue it names, or one of the constants above; None if no row names one."""
        brokers, ids = rows.column("brokerName"), rows.whole_numbers("queueId", -1)
        if brokers is None and ids is None:
            return None
        names, broker_of = _numbered(brokers, rows.count)
        if ids is None:
            ids = np.full(rows.count, -1)
        place_of = {(queue.broker_name, queue.queue_id): place for place, queue in enumerate(target.queues)}
        pairs = np.stack([broker_of, ids], axis=1)
        distinct, which = np.unique(pairs, axis=0, return_inverse=True)
        places: list[int] = []
        for broker, queue_id in distinct:
            name = names[broker] if broker >= 0 else ""
            is_named = broker >= 0 or queue_id >= 0
            places.append(place_of.get((name, int(queue_id)), _NO_QUEUE) if is_named else _ANY_QUEUE)
        found: NDArray[np.int64] = np.array(places, np.int64)[which.reshape(-1)]
        return found


def _numbered(column: pa.Array | None, count: int) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct values of a column of texts, and for each row the number of its value; -1 for null."""
    if column is None:
        return [], np.full(count, -1)
    encoded = column.cast(pa.string()).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)


def _each(
    topics: Sequence[str], numbers: NDArray[np.int64], which: NDArray[np.bool_]
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Each topic with the rows of the mask that go to it."""
    for number, topic in enumerate(topics):
        where = np.flatnonzero(which & (numbers == number))
        if len(where):
            yield topic, where


def _is_topic(topic: str) -> bool:
    try:
        check_topic(topic)
    except UsageError:
        return False
    return is_sendable_topic(topic)
