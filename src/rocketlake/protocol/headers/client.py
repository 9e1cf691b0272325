"""Headers about connected clients: heartbeat answer, unregister, members, notifications, running info, reset pushes.

Owns        field names.
Must not know   the tables of clients.

HEART_BEAT, the lock requests and CHECK_CLIENT_CONFIG have a body only.
"""

from __future__ import annotations

from msgspec import field

from rocketlake.protocol.fields import Header, Int32, Int64, RequestHeader


class HeartbeatReplyHeader(Header, kw_only=True):
    """Answer of HEART_BEAT; `sub_changed` asks the client for its full subscriptions."""

    supports_v2: bool = field(default=True, name="IS_SUPPORT_HEART_BEAT_V2")
    sub_changed: bool = field(default=True, name="IS_SUB_CHANGE")


class UnregisterClientHeader(RequestHeader, kw_only=True):
    """UNREGISTER_CLIENT: the client leaves a producer group, a consumer group, or both."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GroupMembersHeader(RequestHeader, kw_only=True):
    """GET_CONSUMER_LIST_BY_GROUP."""

    consumer_group: str


class NotifyConsumersChangedHeader(RequestHeader, kw_only=True):
    """NOTIFY_CONSUMER_IDS_CHANGED (broker to client, one-way): rebalance now."""

    consumer_group: str


class RunningInfoHeader(RequestHeader, kw_only=True):
    """GET_CONSUMER_RUNNING_INFO, from an admin to the broker and from the broker to the client."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeDirectlyHeader(RequestHeader, kw_only=True):
    """CONSUME_MESSAGE_DIRECTLY, from an admin to the broker and from the broker to the client."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class ResetOffsetHeader(RequestHeader, kw_only=True):
    """INVOKE_BROKER_TO_RESET_OFFSET and RESET_CONSUMER_CLIENT_OFFSET (broker to client, one-way).

    `queue_id` >= 0 with an `offset` other than -1: that offset; else by `timestamp` in ms (below 0 = the end).
    """

    topic: str
    group: str
    timestamp: Int64
    is_force: bool
    queue_id: Int32 = -1
    offset: Int64 | None = None


class ConsumerStatusHeader(RequestHeader, kw_only=True):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS and GET_CONSUMER_STATUS_FROM_CLIENT; `client_addr` is a client id."""

    topic: str
    group: str
    client_addr: str | None = None
