"""END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE: a producer decides, an administrator has one looked at again.

Owns        the checks of an end in RocketMQ's order, the answers.
Must not know   what a half message looks like, how an end is noted.

Rules: RocketMQ's EndTransactionProcessor. An end that says "not known yet" changes nothing. One that comes too late
for the time its message asked not to be checked is refused, unless it answers a check. The committed message is stored
first, and as safe as its sender wants it; then the end is noted. A second end of the same half message is refused as
long as this process knows the first; Apache stores a second message then.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.intake import Intake
from rocketlake.broker.put_answer import put_failure
from rocketlake.broker.transaction import half as halves
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.model import sys_flag
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.transaction import EndTransactionHeader, ResumeCheckHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutStatus

__all__ = ["Transaction"]

_log = get_logger(__name__)
_REMARK_CHARS_MAX = 200


class Transaction:
    """Ends transactions."""

    def __init__(
        self, config: LiveConfig, store: MessageStore, intake: Intake, ops: TransactionOps, clock: Clock
    ) -> None:
        self._config = config
        self._store = store
        self._intake = intake
        self._ops = ops
        self._clock = clock

    def end(self, request: Request) -> Reply | Held:
        """Commit or roll back. RemoteError says what does not fit; Java sends it one-way and hears nothing."""
        header = request.header(EndTransactionHeader)
        if header.commit_or_rollback not in (sys_flag.TRANSACTION_COMMIT, sys_flag.TRANSACTION_ROLLBACK):
            remark = (request.command.remark or "")[:_REMARK_CHARS_MAX]
            _log.info("transaction %s of group %s: pending. %s", header.msg_id, header.producer_group, remark)
            return Reply()
        half = self._find(header)
        if not self._ops.claim(half.queue_offset):
            raise RemoteError("the transaction is ended already", code=ResponseCode.SYSTEM_ERROR)
        if header.commit_or_rollback == sys_flag.TRANSACTION_ROLLBACK:
            self._ops.add(half.queue_offset)
            return Reply()
        try:
            return self._commit(request, half)
        except RemoteError:
            self._ops.release(half.queue_offset)
            raise

    def resume(self, request: Request) -> Reply:
        """Have a half message, or one that was given up, looked at as if it were new."""
        header = request.header(ResumeCheckHeader)
        try:
            physical_offset = parse_offset_message_id(header.msg_id)[2]
        except UsageError as error:
            raise RemoteError(error.what, code=ResponseCode.SYSTEM_ERROR, hint=error.hint) from None
        half = halves.read_half(self._store, physical_offset, given_up=True)
        if half is None:
            raise RemoteError(f"no half message at {physical_offset}", code=ResponseCode.SYSTEM_ERROR)
        result = self._store.put(halves.put_back_copy(half, checked=0))
        return Reply() if result.status is PutStatus.OK else put_failure(result.status, result)

    def _find(self, header: EndTransactionHeader) -> StoredMessage:
        half = halves.read_half(self._store, header.commit_log_offset)
        if half is None:
            raise _refused("Find prepared transaction message failed")
        if not header.from_transaction_check and self._is_late(half):
            raise RemoteError(
                "the transaction ends later than its message asked not to be checked",
                code=ResponseCode.ILLEGAL_OPERATION,
                hint="the producer will be asked about it",
            )
        if halves.producer_group(half) != header.producer_group:
            raise _refused("The producer group wrong")
        if half.queue_offset != header.tran_state_table_offset:
            raise _refused("The transaction state table offset wrong")
        return half

    def _is_late(self, half: StoredMessage) -> bool:
        immune_ms = halves.immune_ms(half)
        if immune_ms is None:
            return False
        age_ms = self._clock.now_ms() - half.born_ms
        return age_ms > max(immune_ms, self._config.now.transaction_timeout_ms)

    def _commit(self, request: Request, half: StoredMessage) -> Reply | Held:
        message, properties = halves.committed_copy(half)
        result = self._intake.put(message, properties)

        def end(status: PutStatus) -> Reply:
            if status.is_stored:
                self._ops.add(half.queue_offset)
                return Reply()
            self._ops.release(half.queue_offset)
            return put_failure(status, result)

        if self._intake.acks_at_once or not result.status.is_stored:
            return end(result.status)
        self._intake.when_durable(result, properties, lambda status: request.answer(end(status)))
        return HELD


def _refused(remark: str) -> RemoteError:
    return RemoteError(remark, code=ResponseCode.SYSTEM_ERROR)
