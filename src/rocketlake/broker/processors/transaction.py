"""END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE: a producer decides, an administrator has one looked at again.

Owns        the checks of an end in RocketMQ's order, the answers.
Must not know   what a half message looks like, how an end is noted.

Rules: RocketMQ's EndTransactionProcessor. An end that says "not known yet" changes nothing. One that comes too late
for the time its message asked not to be checked is refused, unless it answers a check. A transaction ends once, by
whichever of its places it is named; Apache stores a second message then. An end that says again what became of it is
answered with success, when that is as safe as the first was to be.

Invariant: the committed message and the note of it are made in one step of the loop.
"""

from __future__ import annotations

import re

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.intake.put_answer import put_failure
from rocketlake.broker.topics.readable_queue import ReadableQueue
from rocketlake.broker.topics.table import TopicTable
from rocketlake.broker.transaction import half as halves
from rocketlake.broker.transaction.committed import committed_records
from rocketlake.broker.transaction.ledger import HalfLedger, Standing
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.broker.transaction.resume import ResumeCheck
from rocketlake.model import sys_flag
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.transaction import EndTransactionHeader, ResumeCheckHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutResult, PutStatus

__all__ = ["Transaction"]

_log = get_logger(__name__)
_REMARK_CHARS_MAX = 200
_HEXADECIMAL = re.compile("[0-9A-Fa-f]+")


_HOW = {sys_flag.TRANSACTION_COMMIT: Standing.COMMITTED, sys_flag.TRANSACTION_ROLLBACK: Standing.ROLLED_BACK}
_ENDED = {
    Standing.COMMITTED: ("the transaction is committed already", ""),
    Standing.ROLLED_BACK: ("the transaction is rolled back already", ""),
    Standing.GIVEN_UP: (
        "the half message was given up, it lies in TRANS_CHECK_MAX_TIME_TOPIC",
        "have it checked again: RESUME_CHECK_HALF_MESSAGE",
    ),
}


class Transaction:
    """Ends transactions."""

    def __init__(
        self,
        *,
        config: LiveConfig,
        store: MessageStore,
        intake: Intake,
        topics: TopicTable,
        readable_queue: ReadableQueue,
        ledger: HalfLedger,
        ops: TransactionOps,
        clock: Clock,
    ) -> None:
        self._config = config
        self._store = store
        self._intake = intake
        self._topics = topics
        self._readable_queue = readable_queue
        self._ledger = ledger
        self._ops = ops
        self._clock = clock
        self._resume = ResumeCheck(store, ledger, ops)

    def end(self, request: Request) -> Reply | Held:
        """Commit or roll back. RemoteError says what does not fit; Java sends it one-way and hears nothing."""
        header = request.header(EndTransactionHeader)
        if header.commit_or_rollback not in (sys_flag.TRANSACTION_COMMIT, sys_flag.TRANSACTION_ROLLBACK):
            remark = (request.command.remark or "")[:_REMARK_CHARS_MAX]
            _log.info("transaction %s of group %s: pending. %s", header.msg_id, header.producer_group, remark)
            return Reply()
        half = self._find(header)
        how = _HOW[header.commit_or_rollback]
        known = self._ledger.standing(half)
        if known is not Standing.OPEN:
            return self._again(request, how, known)
        if how is Standing.COMMITTED:
            return self._commit(request, half)
        self._ops.end(half, how)
        return Reply()

    def resume(self, request: Request) -> Reply:
        """Have a half message, or one that was given up, looked at as if it were new."""
        header = request.header(ResumeCheckHeader)
        try:
            physical_offset = parse_offset_message_id(header.msg_id)[2]
        except UsageError as error:
            raise RemoteError(error.what, code=ResponseCode.SYSTEM_ERROR, hint=error.hint) from None
        result = self._resume.put_back(physical_offset)
        return Reply() if result.status is PutStatus.OK else put_failure(result.status, result)

    def _find(self, header: EndTransactionHeader) -> StoredMessage:
        if not self._ledger.is_known:
            raise _refused("the broker does not know yet which transactions are ended: its log is not dispatched")
        half = halves.read_half(self._store, header.commit_log_offset)
        if half is None:
            raise _refused("Find prepared transaction message failed")
        if not header.from_transaction_check and self._is_late(half):
            raise RemoteError(
                "the transaction ends later than its message asked not to be checked",
                code=ResponseCode.ILLEGAL_OPERATION,
                hint="wait: the producer will be asked about it",
            )
        if halves.producer_group(half) != header.producer_group:
            raise _refused("The producer group wrong")
        if half.queue_offset != header.tran_state_table_offset:
            raise _refused("The transaction state table offset wrong")
        if _means_another(header, half):
            raise _refused("The transaction id wrong: this half message was lost, another lies at its place")
        return half

    def _is_late(self, half: StoredMessage) -> bool:
        immune_ms = halves.immune_ms(half)
        if immune_ms is None:
            return False
        age_ms = self._clock.now_ms() - half.born_ms
        return age_ms > max(immune_ms, self._config.now.transaction_timeout_ms)

    def _again(self, request: Request, how: Standing, known: Standing) -> Reply | Held:
        """An end of a transaction that is ended."""
        if how is not known:
            what, hint = _ENDED.get(known, ("the transaction is ended already", ""))
            raise RemoteError(what, code=ResponseCode.SYSTEM_ERROR, hint=hint)
        if how is Standing.ROLLED_BACK:
            return Reply()
        # The committed message may not be on disk yet: whoever waits for it waits for all there is.
        stored = PutResult(PutStatus.OK, next_offset=self._store.max_physical_offset, count=0)
        return self._answer_when_durable(request, stored, {})

    def _commit(self, request: Request, half: StoredMessage) -> Reply | Held:
        places = self._ledger.places(half)
        name = self._ledger.name(half) if len(places) > 1 else None
        message, properties = halves.committed_copy(half, name, self._queue_id(half))
        log_end = self._store.max_physical_offset
        try:
            result = self._intake.put(message, properties)
        except BaseException:
            # Whatever went wrong: a message that was appended is committed, and any other is asked about again. With
            # a write pool it cannot be read yet.
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

    def _queue_id(self, half: StoredMessage) -> int:
        """The queue it goes to; RemoteError if there is none any more."""
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


def _means_another(header: EndTransactionHeader, half: StoredMessage) -> bool:
    """Does the end name another message than the one that lies there? After a power cut places are given out anew."""
    named = [text for text in (header.transaction_id, header.msg_id) if text]
    if not half.unique_key or half.unique_key in named or half.offset_message_id in named:
        return False
    return any(len(text) == len(half.unique_key) and _HEXADECIMAL.fullmatch(text) for text in named)


def _refused(remark: str) -> RemoteError:
    return RemoteError(remark, code=ResponseCode.SYSTEM_ERROR)
