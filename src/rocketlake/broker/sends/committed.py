"""The message of a transaction that is committed.

Owns        the copy that consumers get, the answer to the commit.
Must not know   whether the transaction may be committed, what a half message looks like, how an end is noted.

Invariant: the committed message and the note of it are made in one step of the loop.
"""

from __future__ import annotations

from rocketlake.base.errors import RemoteError
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.intake.put_answer import put_failure
from rocketlake.broker.topics.readable_queue import ReadableQueue
from rocketlake.broker.topics.table import TopicTable
from rocketlake.broker.transaction import half as halves
from rocketlake.broker.transaction.committed import committed_records
from rocketlake.broker.transaction.ledger import HalfLedger, Standing
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.model.message import StoredMessage
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutResult, PutStatus

__all__ = ["CommittedSends"]


class CommittedSends:
    """Puts committed messages."""

    def __init__(
        self,
        *,
        store: MessageStore,
        intake: Intake,
        topics: TopicTable,
        readable_queue: ReadableQueue,
        ledger: HalfLedger,
        ops: TransactionOps,
    ) -> None:
        self._store = store
        self._intake = intake
        self._topics = topics
        self._readable_queue = readable_queue
        self._ledger = ledger
        self._ops = ops

    def put(self, request: Request, half: StoredMessage) -> Reply | Held:
        """Put the message and note the end of its transaction."""
        places = self._ledger.places(half)
        name = self._ledger.name(half) if len(places) > 1 else None
        message, properties = halves.committed_copy(half, name, self._queue_id(half))
        log_end = self._store.max_physical_offset
        try:
            result = self._intake.put(message, properties)
        except BaseException:
            # If the message was appended, its transaction is committed; if not, the producer is asked again. With a
            # write pool an appended message cannot be read yet.
            if any(
                record.prepared_transaction_offset == half.physical_offset
                for record in committed_records(self._store.appended_views(log_end))
            ):
                self._ops.end(half, Standing.COMMITTED)
            raise
        if not result.status.is_stored:
            return put_failure(result.status, result)
        self._ops.end(half, Standing.COMMITTED)
        return self._answer_when_durable(request, result, properties)

    def answer_again(self, request: Request) -> Reply | Held:
        """The answer to a commit that was made before. Its message may not be on disk yet: wait for all there is."""
        stored = PutResult(PutStatus.OK, next_offset=self._store.max_physical_offset, count=0)
        return self._answer_when_durable(request, stored, {})

    def _queue_id(self, half: StoredMessage) -> int:
        """The queue that the message goes to; RemoteError if its topic was deleted."""
        topic, queue_id = halves.target(half)
        if halves.is_orphan(half, self._store, self._topics):
            raise RemoteError(
                f"topic[{topic}] of the half message was deleted",
                code=ResponseCode.TOPIC_NOT_EXIST,
                hint="look for it in TRANS_CHECK_MAX_TIME_TOPIC: it will be moved there",
            )
        return self._readable_queue(topic, queue_id)

    def _answer_when_durable(self, request: Request, result: PutResult, properties: dict[str, str]) -> Reply | Held:
        if self._intake.acks_at_once:
            return Reply()
        self._intake.when_durable(
            result,
            properties,
            lambda status: request.answer(Reply() if status.is_stored else put_failure(status, result)),
        )
        return HELD
