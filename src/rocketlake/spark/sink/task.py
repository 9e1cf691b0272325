"""One task of a write: Arrow batches in, requests out, an error unless every row is stored.

Owns        the order of steps: faults, dead letters, queues, requests, sequence numbers, counts.
Must not know   Spark's classes, bytes of messages, how a request is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rocketlake.base.errors import InternalError, RocketLakeError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.client.wire import Outgoing
from rocketlake.codec import property_text
from rocketlake.codec.record_batch import encode_batch
from rocketlake.codec.sequence_mark import OTHER_ROWS_HINT
from rocketlake.model import property_names as names
from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.places.location import is_stored, location_of
from rocketlake.spark.sink.arrow_rows import ArrowRows, Encoding
from rocketlake.spark.sink.counts import Counts
from rocketlake.spark.sink.dead_letters import DeadLetter, as_message, write_file, write_object
from rocketlake.spark.sink.faults import Fault
from rocketlake.spark.sink.finding_queues import find_queues
from rocketlake.spark.sink.identity import TaskIdentity
from rocketlake.spark.sink.input_columns import InputColumns
from rocketlake.spark.sink.options import SinkOptions
from rocketlake.spark.sink.routing import QueuedRows, Router, TopicQueues
from rocketlake.spark.sink.sending import Sending, SendRequest, SinkCluster, WriteFailed

__all__ = ["SinkTask"]

_log = get_logger(__name__)


class SinkTask:
    """Writes the rows of one partition; used once."""

    def __init__(
        self, options: SinkOptions, columns: InputColumns, identity: TaskIdentity, cluster: SinkCluster
    ) -> None:
        self._options = options
        self._columns = columns
        self._identity = identity
        self._cluster = cluster
        self.counts = Counts()
        once = options.effectively_once
        self._encoding = Encoding(
            options, identity.unique_prefix(repeatable=once), identity.key_prefix.encode() if once else b""
        )
        self._router = Router(options.topic, identity.partition + identity.batch, self._find_queues)
        self._sending = Sending(cluster, options, self.counts)
        self._sent: dict[MessageQueue, tuple[int, int]] = {}  # messages so far, and the digest of their entries
        self._dead: list[DeadLetter] = []

    def write(self, batches: Iterable[pa.RecordBatch]) -> Counts:
        """Hand in all rows. Raises the error that kept one of them from being stored; Spark then repeats the task."""
        try:
            for batch in batches:
                rows = ArrowRows(batch, self._columns, self._encoding, self.counts.rows)
                self._write_batch(rows)
                self.counts.rows += rows.count
            if self._dead:
                self._write_dead()
            self._finish()
        except RocketLakeError as error:
            # A reader of Spark's log must see which task failed.
            identity = self._identity
            error.what += f" [task {identity.partition} of batch {identity.batch}, query {identity.query}]"
            raise
        finally:
            self._cancel()
        self._check_sum()
        return self.counts

    def _finish(self) -> None:
        """Wait until all rows are stored. Raises the error that kept one of them from being so."""
        self._sending.finish()
        self._check_stored()

    def _cancel(self) -> None:
        """Give up what is under way."""
        self._sending.cancel()

    def _check_stored(self) -> None:
        """Check that a batch written before holds only messages that this attempt has sent, too.

        Each broker compares contents up to its own count. A broker with a higher count has rows of another plan, and
        took rows of this attempt for replays of those.
        """
        for queue, (messages, _digest) in self._sent.items():
            stored = self._sending.stored.get(queue, 0)
            if stored > messages:
                raise WriteFailed(
                    f"{stored} rows of this batch were stored in {queue} before, now the task has {messages}: it was"
                    " written with other rows then, and some of those it has now were taken for replays",
                    hint=OTHER_ROWS_HINT,
                )

    def _check_sum(self) -> None:
        """Check that each row became a message or was counted as invalid."""
        counts = self.counts
        expected = counts.rows - counts.skipped - len(self._dead)
        if counts.messages != expected:
            raise InternalError(
                f"{counts.messages} messages were stored of {expected} rows", hint="report this as a bug"
            )

    def _write_batch(self, rows: ArrowRows) -> None:
        self._router.find_faults(rows)
        if rows.faults.any():
            self._treat_faults(rows)
        good = rows.faults == Fault.NONE
        levels = rows.delay_levels
        if levels is not None:
            self._send_singly(rows, good & (levels > 0), names.DELAY, levels)
            good &= levels == 0
        priorities = rows.priorities
        if priorities is not None:
            self._send_singly(rows, good & (priorities >= 0), names.PRIORITY, priorities)
            good &= priorities < 0
        for part in self._router.spread(rows, good):
            self._send_part(rows, part)

    def _send_part(self, rows: ArrowRows, part: QueuedRows) -> None:
        """Send the rows of one queue."""
        start = 0
        while start < len(part.rows):
            body, taken = rows.encode(part.rows, start)
            self._send_batch(part.target, part.queue, body, taken, is_free=part.is_free)
            start += taken

    def _send_batch(
        self, target: TopicQueues, queue: MessageQueue, body: bytes, messages: int, *, is_free: bool
    ) -> None:
        properties, others = b"", target.queues if is_free else ()
        if self._options.effectively_once:
            sequence, before = self._sent.get(queue, (0, 0))
            after = crc32(body, before)
            self._sent[queue] = sequence + messages, after
            mark = self._identity.mark(sequence, target.layout, messages, before, after)
            properties, others = f"{names.PRODUCER_SEQUENCE}\x01{mark}\x02".encode(), ()
        outgoing = Outgoing(queue.topic, "", body, properties, count=messages)
        self._sending.put(SendRequest(queue, outgoing, messages, others))

    def _send_singly(self, rows: ArrowRows, which: NDArray[np.bool_], name: str, values: NDArray[np.int64]) -> None:
        """Send rows with a property that no message of a batch may have: a delay, or the priority that is its queue."""
        for part in self._router.spread(rows, which):
            for row in part.rows:
                message = rows.message(part.queue.topic, int(row))
                properties = {**message.properties, name: str(values[row])}
                outgoing = Outgoing(part.queue.topic, "", message.body, property_text.encode(properties))
                self._sending.put(SendRequest(part.queue, outgoing, 1, part.target.queues if part.is_free else ()))

    # -- invalid rows --------------------------------------------------------------------------------------------------

    def _treat_faults(self, rows: ArrowRows) -> None:
        options, counts = self._options, self.counts
        wrong = np.flatnonzero(rows.faults)
        first = Fault(rows.faults[wrong[0]])
        position = f"{self._identity.key_prefix}{rows.first_number + int(wrong[0])}"
        if options.on_invalid_row == "fail":
            raise UsageError(
                f"row {position} (queryId/batchId/partitionId/row) makes no message: {first.text}",
                hint="correct the rows, or set option 'onInvalidRow' to dlq or skip",
            )
        if not counts.faults:
            _log.warning("rocketmq sink: row %s is invalid, others may follow: %s", position, first.text)
        for fault, count in zip(*np.unique(rows.faults[wrong], return_counts=True), strict=True):
            name = Fault(fault).name
            counts.faults[name] = counts.faults.get(name, 0) + int(count)
        if options.on_invalid_row == "skip":
            counts.skipped += len(wrong)
            return
        counts.dead_letters += len(wrong)
        topics = rows.column("topic")
        letters = [
            DeadLetter(
                Fault(rows.faults[row]),
                rows.first_number + int(row),
                options.topic or ("" if topics is None else topics[int(row)].as_py() or ""),
                rows.body(int(row)),
            )
            for row in wrong
        ]
        if options.dlq_path:
            self._dead += letters
        else:
            self._send_dead(letters)

    def _write_dead(self) -> None:
        options = self._options
        if is_stored(options.dlq_path):
            write_object(location_of(options.dlq_path, dict(options.store), what="dlqPath"), self._dead, self._identity)
        else:
            write_file(options.dlq_path, self._dead, self._identity)

    def _send_dead(self, letters: list[DeadLetter]) -> None:
        options = self._options
        pieces: dict[MessageQueue, tuple[TopicQueues, list[Message]]] = {}
        for letter in letters:
            target, queue = self._router.by_turns(options.dlq_topic, letter.number)
            message = as_message(letter, options.dlq_topic, self._identity, options.message_bytes_max)
            pieces.setdefault(queue, (target, []))[1].append(message)
        for queue, (target, messages) in pieces.items():
            for piece in _cut(messages, options.batch_bytes):
                self._send_batch(target, queue, encode_batch(piece), len(piece), is_free=True)

    # -- queues --------------------------------------------------------------------------------------------------------

    def _find_queues(self, topic: str) -> TopicQueues:
        return TopicQueues(topic, find_queues(self._cluster, self._options, topic))


def _cut(messages: list[Message], bytes_max: int) -> Iterable[list[Message]]:
    piece: list[Message] = []
    size = 0
    for message in messages:
        if piece and size + len(message.body) > bytes_max:
            yield piece
            piece, size = [], 0
        piece.append(message)
        size += len(message.body)
    if piece:
        yield piece
