"""END_TRANSACTION.

Owns        the request, what a transaction can end with.
Must not know   when a transaction ends, how its end is decided.
"""

from __future__ import annotations

from enum import Enum

from rocketlake.client.calls.send import SendResult
from rocketlake.model import sys_flag
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.transaction import CheckTransactionHeader, EndTransactionHeader
from rocketlake.protocol.request_code import RequestCode

__all__ = ["TransactionEnd", "end_of_check", "end_of_send"]


class TransactionEnd(Enum):
    """How a transaction ended; UNKNOWN: not decided yet, the broker asks again later."""

    COMMIT = sys_flag.TRANSACTION_COMMIT
    ROLLBACK = sys_flag.TRANSACTION_ROLLBACK
    UNKNOWN = sys_flag.TRANSACTION_NONE


def end_of_send(group: str, sent: SendResult, end: TransactionEnd, remark: str | None = None) -> Command:
    """The request that ends the transaction of a half message just sent; `remark`: why its end is unknown."""
    header = EndTransactionHeader(
        topic=sent.queue.topic,
        producer_group=group,
        tran_state_table_offset=sent.queue_offset,
        commit_log_offset=parse_offset_message_id(sent.offset_message_id)[2],
        commit_or_rollback=end.value,
        msg_id=sent.message_id,
        transaction_id=sent.transaction_id,
        target_broker=sent.queue.broker_name,
    )
    return Command.request(RequestCode.END_TRANSACTION, header, remark=remark)


def end_of_check(
    group: str, question: CheckTransactionHeader, message: StoredMessage, end: TransactionEnd, remark: str | None = None
) -> Command:
    """The request that answers a broker's question about a half message."""
    header = EndTransactionHeader(
        topic=message.topic,
        producer_group=group,
        tran_state_table_offset=question.tran_state_table_offset,
        commit_log_offset=question.commit_log_offset,
        commit_or_rollback=end.value,
        from_transaction_check=True,
        msg_id=message.message_id,
        transaction_id=question.transaction_id,
        target_broker=question.target_broker,
    )
    return Command.request(RequestCode.END_TRANSACTION, header, remark=remark)
