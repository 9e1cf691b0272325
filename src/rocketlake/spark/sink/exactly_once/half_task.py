"""One task of a write with exactly_once: rows become half messages, their places a list for the driver.

Owns        when a task writes nothing, how many half messages are handed over at once.
Must not know   what is decided, how a half message is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future, wait

import pyarrow as pa

from rocketlake.codec import property_text
from rocketlake.model import property_names as names
from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.sink.arrow_rows import ArrowRows, Encoding
from rocketlake.spark.sink.cluster_sends import ClusterSends
from rocketlake.spark.sink.counts import Counts, TaskDone
from rocketlake.spark.sink.dead_letters import DeadLetter, as_message
from rocketlake.spark.sink.exactly_once.halves import HalfMessage, HalfWriter, half_properties
from rocketlake.spark.sink.exactly_once.journal import Journal
from rocketlake.spark.sink.exactly_once.process import open_journal
from rocketlake.spark.sink.exactly_once.records import HalfList, ListPlace
from rocketlake.spark.sink.exactly_once.topic_type import check_topic_type
from rocketlake.spark.sink.identity import TaskIdentity
from rocketlake.spark.sink.input_columns import InputColumns
from rocketlake.spark.sink.options import SinkOptions
from rocketlake.spark.sink.routing import QueuedRows, TopicQueues
from rocketlake.spark.sink.task import SinkTask

__all__ = ["write_task"]

_TOGETHER = 256


def write_task(
    cluster: ClusterSends,
    options: SinkOptions,
    columns: InputColumns,
    identity: TaskIdentity,
    rows: Iterable[pa.RecordBatch],
) -> TaskDone:
    """Write the rows of one partition, or none of them if their batch is decided already."""
    journal = cluster.run(open_journal(cluster, options, identity.query))
    standing = cluster.run(journal.standing(identity.batch))
    if standing.decision is not None:
        return TaskDone(identity, Counts(rows=sum(batch.num_rows for batch in rows)))
    task = HalfTask(options, columns, identity, cluster, journal)
    counts = task.write(rows)
    counts.retries += journal.calls.retries
    return TaskDone(identity, counts, tuple(task.lists), task.writer.born_ms)


class HalfTask(SinkTask):
    """Writes the rows of one partition; used once."""

    def __init__(
        self,
        options: SinkOptions,
        columns: InputColumns,
        identity: TaskIdentity,
        cluster: ClusterSends,
        journal: Journal,
    ) -> None:
        super().__init__(options, columns, identity, cluster)
        group, seconds = journal.calls.group, options.batch_timeout_ms // 1000
        properties = half_properties(group, identity.query, identity.batch, seconds)
        self.lists: list[ListPlace] = []
        """The lists of its half messages, once all are written."""
        self.writer = HalfWriter(journal.calls, properties)
        self._halves = cluster
        self._journal = journal
        self._encoding = Encoding(options, self.writer.prefix.encode(), b"", own_property_bytes=len(properties))
        self._room = threading.Semaphore(options.in_flight)
        self._works: set[Future[None]] = set()
        self._waiting: list[HalfMessage] = []

    def _send_part(self, rows: ArrowRows, part: QueuedRows) -> None:
        for row in part.rows.tolist():
            self._put(part.queue, rows.message(part.queue.topic, row), rows.first_number + row)

    def _send_dead(self, letters: list[DeadLetter]) -> None:
        options = self._options
        for letter in letters:
            _target, queue = self._router.by_turns(options.dlq_topic, letter.number)
            message = as_message(letter, options.dlq_topic, self._identity, options.message_bytes_max)
            message.properties[names.UNIQUE_KEY] = f"{self.writer.prefix}{letter.number:08X}"
            self._put(queue, message, letter.number)

    def _put(self, queue: MessageQueue, message: Message, number: int) -> None:
        self._waiting.append(HalfMessage(number, queue, message.body, property_text.encode(message.properties)))
        if len(self._waiting) == _TOGETHER:
            self._hand_over()

    def _hand_over(self) -> None:
        """Send what waits; waits while `inFlight` such pieces are under way. Raises the error of an earlier one."""
        self._room.acquire()
        self._raise_first([work for work in list(self._works) if work.done()])
        messages, self._waiting = self._waiting, []
        work = self._halves.run_soon(self.writer.write(messages))
        self._works.add(work)
        work.add_done_callback(lambda _: self._room.release())
        counts = self.counts
        counts.messages += len(messages)
        counts.requests += len(messages)
        counts.bytes += sum(len(message.body) for message in messages)

    def _raise_first(self, works: list[Future[None]]) -> None:
        for work in works:
            work.result()
            self._works.discard(work)

    def _finish(self) -> None:
        if self._waiting:
            self._hand_over()
        wait(self._works)
        self._raise_first(list(self._works))
        key = f"{self._identity.query}/{self._identity.batch}"
        for turn, half_list in enumerate(self.writer.lists()):
            self.lists.append(self._store_list(half_list, key, self._identity.partition + turn))

    def _store_list(self, half_list: HalfList, key: str, turn: int) -> ListPlace:
        return self._halves.run(self._journal.add_list(half_list, key, turn))

    def _cancel(self) -> None:
        for work in self._works:
            work.cancel()

    def _find_queues(self, topic: str) -> TopicQueues:
        found = super()._find_queues(topic)
        self._halves.run(check_topic_type(self._journal.calls, found.queues))
        return found
