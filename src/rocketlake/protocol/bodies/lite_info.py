"""Bodies of answers about lite topics, for administrators.

Owns        their shape.
Must not know   the sources of the numbers.
"""

from __future__ import annotations

from msgspec import field

from rocketlake.protocol.bodies.body import Body, Entry
from rocketlake.protocol.bodies.stats import GroupOffsets, TopicOffsets

__all__ = [
    "BrokerLiteInfo",
    "LiteClient",
    "LiteClientInfo",
    "LiteGroupInfo",
    "LiteLag",
    "LiteTopicInfo",
    "ParentTopicInfo",
]


class BrokerLiteInfo(Body, kw_only=True):
    """Answer of GET_BROKER_LITE_INFO. `topic_meta`: minutes that a lite topic lives, by parent, -1 for ever."""

    store_type: str = "default"
    max_lmq_num: int
    current_lmq_num: int
    lite_subscription_count: int
    order_info_count: int
    cq_table_size: int
    offset_table_size: int
    event_map_size: int
    topic_meta: dict[str, int] = field(default_factory=dict)
    group_meta: dict[str, list[str]] = field(default_factory=dict)
    """The groups that are bound to each parent."""


class ParentTopicInfo(Body, kw_only=True):
    """Answer of GET_PARENT_TOPIC_INFO. `ttl` in minutes; `lmq_num`: lite topics of all parents."""

    topic: str
    ttl: int
    groups: list[str] | None = None
    lmq_num: int
    lite_topic_count: int


class LiteClient(Entry, kw_only=True):
    """A client that subscribes to a lite topic."""

    client_id: str
    group: str


class LiteTopicInfo(Body, kw_only=True):
    """Answer of GET_LITE_TOPIC_INFO."""

    parent_topic: str
    lite_topic: str
    subscriber: list[LiteClient] = field(default_factory=list)
    topic_offset: TopicOffsets = field(default_factory=TopicOffsets)
    sharding_to_broker: bool
    """True if the messages of the lite topic lie at this broker."""


class LiteClientInfo(Body, kw_only=True):
    """Answer of GET_LITE_CLIENT_INFO; `lite_topic_count` -1: nobody knows the client. Times in ms, 0: not known."""

    parent_topic: str
    group: str
    client_id: str
    last_access_time: int = 0
    last_consume_time: int = 0
    lite_topic_count: int = -1
    lite_topic_set: list[str] | None = None
    """Names of light queues."""


class LiteLag(Entry, kw_only=True):
    """How far a group is behind in a lite topic."""

    lite_topic: str
    lag_count: int
    earliest_unconsumed_timestamp: int = -1


class LiteGroupInfo(Body, kw_only=True):
    """Answer of GET_LITE_GROUP_INFO. Times in ms, -1: not known."""

    group: str
    parent_topic: str
    lite_topic: str | None = None
    earliest_unconsumed_timestamp: int = -1
    total_lag_count: int = 0
    lite_topic_offset_wrapper: GroupOffsets | None = None
    lag_count_top_k: list[LiteLag] | None = field(default=None, name="lagCountTopK")
    lag_timestamp_top_k: list[LiteLag] | None = field(default=None, name="lagTimestampTopK")
