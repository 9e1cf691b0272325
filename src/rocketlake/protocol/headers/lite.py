"""Headers of lite topics: pop of what a client subscribes to, the end of a subscription.

Owns        field names.
Must not know   what a subscription is.
"""

from __future__ import annotations

from rocketlake.protocol.fields import Header, Int32, Int64, TopicHeader

__all__ = ["PopLiteHeader", "PopLiteReplyHeader"]


class PopLiteHeader(TopicHeader, kw_only=True):
    """POP_LITE_MESSAGE; `topic` is the parent. Times in ms."""

    client_id: str
    consumer_group: str
    topic: str
    max_msg_num: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    attempt_id: str | None = None


class PopLiteReplyHeader(Header, kw_only=True):
    """Its answer; the body holds the records. `order_count_info`: one count a message, joined by `;`."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    order_count_info: str | None = None
