"""Headers of transactions: END_TRANSACTION, CHECK_TRANSACTION_STATE, RECALL_MESSAGE.

Owns        field names, the three states.
Must not know   half messages.
"""

from __future__ import annotations

from typing import Final

from rocketlake.protocol.fields import Header, Int32, Int64, RequestHeader, TopicHeader

TRANSACTION_UNKNOWN: Final = 0
TRANSACTION_COMMIT: Final = 8
TRANSACTION_ROLLBACK: Final = 12


class EndTransactionHeader(RequestHeader, kw_only=True):
    """END_TRANSACTION: the half message at these offsets is decided (`commit_or_rollback`: a TRANSACTION_ state)."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    msg_id: str
    from_transaction_check: bool = False
    topic: str | None = None
    transaction_id: str | None = None


class CheckTransactionHeader(RequestHeader, kw_only=True):
    """CHECK_TRANSACTION_STATE (broker to client, one-way): what became of this half message?"""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    topic: str | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class RecallHeader(TopicHeader, kw_only=True):
    """RECALL_MESSAGE: take back a delayed message that is not delivered yet."""

    topic: str
    recall_handle: str
    producer_group: str | None = None


class RecallReplyHeader(Header, kw_only=True):
    """Answer of RECALL_MESSAGE."""

    msg_id: str
