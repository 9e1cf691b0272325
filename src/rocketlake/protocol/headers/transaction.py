"""Headers of transactions: their end, the broker's question about one, those without an end, checking one again.

Owns        field names.
Must not know   the half messages.
"""

from __future__ import annotations

from rocketlake.protocol.fields import Int32, Int64, RequestHeader


class EndTransactionHeader(RequestHeader, kw_only=True):
    """END_TRANSACTION: the outcome for the half message at `commit_log_offset`.

    `commit_or_rollback`: 8 commit, 12 rollback, 0 not known yet. `tran_state_table_offset` is the half message's queue
    offset. The remark of the command may hold the error of the local transaction.
    """

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str | None = None
    transaction_id: str | None = None


class CheckTransactionHeader(RequestHeader, kw_only=True):
    """CHECK_TRANSACTION_STATE (broker to producer, one-way): the body is the record of the half message."""

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHeader(RequestHeader, kw_only=True):
    """RESUME_CHECK_HALF_MESSAGE: `msg_id` is an offset message id."""

    msg_id: str
    topic: str | None = None


class HalfMessagesHeader(RequestHeader, kw_only=True):
    """GET_HALF_MESSAGES: open ones, or those that were `given_up`, of a topic and a producer group, or of all.

    `is_dead`: only those of groups of which no producer is connected. `limit`: most entries of the answer. `offset`:
    where the last answer ended.
    """

    topic: str | None = None
    group: str | None = None
    is_dead: bool = False
    given_up: bool = False
    limit: Int32 = 1000
    offset: Int64 = 0
