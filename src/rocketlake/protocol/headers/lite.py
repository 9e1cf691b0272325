"""Headers of lite topics: pop of what a client subscribes to, questions of administrators.

Owns        field names.
Must not know   what a subscription is.
"""

from __future__ import annotations

from msgspec import field

from rocketlake.protocol.fields import Header, Int32, Int64, RequestHeader, TopicHeader

__all__ = [
    "LiteClientInfoHeader",
    "LiteDispatchHeader",
    "LiteGroupInfoHeader",
    "LiteTopicInfoHeader",
    "NotifyUnsubscribeLiteHeader",
    "ParentTopicInfoHeader",
    "PopLiteHeader",
    "PopLiteReplyHeader",
]


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


class NotifyUnsubscribeLiteHeader(RequestHeader, kw_only=True):
    """NOTIFY_UNSUBSCRIBE_LITE (broker to client, one-way): the lite topic is another client's of the group."""

    lite_topic: str
    consumer_group: str
    client_id: str


class ParentTopicInfoHeader(RequestHeader, kw_only=True):
    """GET_PARENT_TOPIC_INFO."""

    topic: str


class LiteTopicInfoHeader(RequestHeader, kw_only=True):
    """GET_LITE_TOPIC_INFO."""

    parent_topic: str
    lite_topic: str = ""


class LiteClientInfoHeader(RequestHeader, kw_only=True):
    """GET_LITE_CLIENT_INFO: at most `max_count` names of lite topics."""

    parent_topic: str
    group: str
    client_id: str = ""
    max_count: Int32 = 1000


class LiteGroupInfoHeader(RequestHeader, kw_only=True):
    """GET_LITE_GROUP_INFO: of one lite topic, or without one the `top_k` in which the group is behind most."""

    group: str
    lite_topic: str = ""
    top_k: Int32 = field(default=0, name="topK")


class LiteDispatchHeader(RequestHeader, kw_only=True):
    """TRIGGER_LITE_DISPATCH: to one client of the group, or without one to all."""

    group: str
    client_id: str = ""
