"""The ends of messages that are not ordinary: a transaction's, a recall, a dead letter; the question about an orphan.

Owns        Half (the text that names a half message), the headers that ask a broker, the question to a producer.
Must not know   who asks a broker, which producers are connected.

Apache's proxy remembers for 30 seconds where a half message lies. Here the transaction id says it, so that each proxy
can end a transaction, and one that has just started too. Clients give the id back as it came.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple, Self

from rocketlake.base.errors import UsageError
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_id import RecallHandle
from rocketlake.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK
from rocketlake.protocol.headers.send import RecallHeader, SendBackHeader
from rocketlake.protocol.headers.transaction import CheckTransactionHeader, EndTransactionHeader
from rocketlake.proxy.convert.incoming import message_of
from rocketlake.proxy.convert.names import topic_of
from rocketlake.proxy.convert.receipts import Receipt
from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import Code, TransactionResolution, TransactionSource

__all__ = ["Half", "dead_letter", "end", "orphan", "recall"]

_VERSION = "1"
_DEAD_LETTER_LEVEL = -1
_DIGITS_MAX = 18
_ENDS = {
    TransactionResolution.COMMIT: TRANSACTION_COMMIT,
    TransactionResolution.ROLLBACK: TRANSACTION_ROLLBACK,
}


class Half(NamedTuple):
    """Names one half message. The text is URL-safe Base64 of "version offset offset id broker"."""

    broker_name: str
    queue_offset: int
    physical_offset: int
    transaction_id: str
    """The one that the broker knows: the message id that the client made."""

    def __str__(self) -> str:
        words = (_VERSION, str(self.queue_offset), str(self.physical_offset), self.transaction_id, self.broker_name)
        return base64.urlsafe_b64encode("\n".join(words).encode()).decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Refused: INVALID_TRANSACTION_ID."""
        try:
            words = base64.b64decode(text, altchars=b"-_", validate=True).decode().split("\n")
        except (binascii.Error, ValueError):
            words = []
        if len(words) != 5 or words[0] != _VERSION or not all(map(_is_offset, words[1:3])):
            raise Refused(
                Code.INVALID_TRANSACTION_ID,
                f"{text[:80]!r} is no transaction id",
                hint="give the transaction id that the send of the message returned",
            )
        return cls(words[4], int(words[1]), int(words[2]), words[3])


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX


def end(request: Any) -> tuple[str, EndTransactionHeader]:
    """The broker that holds the half message of a `v2.EndTransactionRequest`, and what it is told. Refused."""
    topic = topic_of(request.topic)
    half = Half.parse(request.transaction_id)
    return half.broker_name, EndTransactionHeader(
        topic=topic,
        producer_group=topic,
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=half.physical_offset,
        commit_or_rollback=_ENDS.get(request.resolution, TRANSACTION_NONE),
        from_transaction_check=request.source == TransactionSource.SOURCE_SERVER_CHECK,
        msg_id=request.message_id,
        transaction_id=half.transaction_id,
    )


def orphan(header: CheckTransactionHeader, message: StoredMessage, broker_name: str) -> Any:
    """A broker's question about a half message, as the `v2.TelemetryCommand` that a producer is asked by."""
    transaction_id = header.transaction_id or message.message_id
    half = Half(broker_name, header.tran_state_table_offset, header.commit_log_offset, transaction_id)
    command = v2.RecoverOrphanedTransactionCommand(message=message_of(message), transaction_id=str(half))
    return v2.TelemetryCommand(recover_orphaned_transaction_command=command)


def recall(request: Any) -> tuple[str, RecallHeader]:
    """The broker that keeps the message of a `v2.RecallMessageRequest`, and what it is asked. Refused."""
    topic = topic_of(request.topic)
    try:
        handle = RecallHandle.of_text(request.recall_handle)
    except UsageError as error:
        raise Refused(Code.BAD_REQUEST, error.what, hint=error.hint) from None
    if handle.topic != topic:
        raise Refused(Code.ILLEGAL_TOPIC, f"the recall handle is one of another topic than {topic}")
    return handle.broker_name, RecallHeader(producer_group=topic, topic=topic, recall_handle=request.recall_handle)


def dead_letter(receipt: Receipt, group: str, topic: str, message_id: str) -> SendBackHeader:
    """How a popped message becomes a dead letter of its group. Refused: INVALID_RECEIPT_HANDLE."""
    if receipt.physical_offset < 0:
        raise Refused(Code.INVALID_RECEIPT_HANDLE, "the receipt handle does not say where the message lies")
    return SendBackHeader(
        offset=receipt.physical_offset,
        group=group,
        delay_level=_DEAD_LETTER_LEVEL,
        origin_msg_id=message_id,
        origin_topic=receipt.topic(topic, group),
        max_reconsume_times=0,
    )
