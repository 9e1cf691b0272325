"""END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE: a producer ends a transaction, an administrator has one checked again.

Owns        the order of the steps of an end, the answers.
Must not know   the checks of an end, what a half message looks like, how an end is noted and a message is stored.

Rules: RocketMQ's EndTransactionProcessor. An end that says "not known yet" changes nothing. A transaction ends once,
whichever of its places in the log an end names; Apache stores a second message then. An end that repeats the first one
is answered with success, when the disk is as safe as the first answer promised.
"""

from __future__ import annotations

from rocketlake.auth.action import Action, on_topic
from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.broker.intake.put_answer import put_failure
from rocketlake.broker.sends.committed import CommittedSends
from rocketlake.broker.transaction import half as halves
from rocketlake.broker.transaction.ledger import HalfLedger, Standing
from rocketlake.broker.transaction.named_half import NamedHalf
from rocketlake.broker.transaction.ops import TransactionOps
from rocketlake.broker.transaction.resume import ResumeCheck
from rocketlake.model import sys_flag
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.model.positions import PhysicalOffset
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.request import Held, Reply, Request
from rocketlake.protocol.headers.transaction import EndTransactionHeader, ResumeCheckHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutStatus

__all__ = ["Transaction"]

_log = get_logger(__name__)
_REMARK_CHARS_MAX = 200

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
        named: NamedHalf,
        ledger: HalfLedger,
        ops: TransactionOps,
        committed: CommittedSends,
        resume: ResumeCheck,
        gate: AccessGate,
    ) -> None:
        """`gate`: asked about the topic of the half message, which the field topic only claims."""
        self._gate = gate
        self._named = named
        self._ledger = ledger
        self._ops = ops
        self._committed = committed
        self._resume = resume

    def end(self, request: Request) -> Reply | Held:
        """Commit or roll back. RemoteError says what does not fit; Java sends an end one-way and gets no answer."""
        header = request.header(EndTransactionHeader)
        if header.commit_or_rollback not in (sys_flag.TRANSACTION_COMMIT, sys_flag.TRANSACTION_ROLLBACK):
            remark = (request.command.remark or "")[:_REMARK_CHARS_MAX]
            _log.info("transaction %s of group %s: pending. %s", header.msg_id, header.producer_group, remark)
            return Reply()
        half = self._named.find(header)
        self._gate.check_more(request, on_topic(halves.target(half)[0], Action.PUB))
        how = _HOW[header.commit_or_rollback]
        known = self._ledger.standing(half)
        if known not in (Standing.OPEN, how):
            what, hint = _ENDED.get(known, ("the transaction is ended already", ""))
            raise RemoteError(what, code=ResponseCode.SYSTEM_ERROR, hint=hint)
        if how is Standing.COMMITTED:
            if known is how:
                return self._committed.answer_again(request)
            return self._committed.put(request, half)
        if known is Standing.OPEN:
            self._ops.end(half, how)
        return Reply()

    def resume(self, request: Request) -> Reply:
        """Have a half message checked from the start again, also one that was given up."""
        header = request.header(ResumeCheckHeader)
        try:
            physical_offset = PhysicalOffset(parse_offset_message_id(header.msg_id)[2])
        except UsageError as error:
            raise RemoteError(error.what, code=ResponseCode.SYSTEM_ERROR, hint=error.hint) from None
        result = self._resume.put_back(
            physical_offset, lambda topic: self._gate.check_more(request, on_topic(topic, Action.UPDATE))
        )
        return Reply() if result.status is PutStatus.OK else put_failure(result.status, result)
