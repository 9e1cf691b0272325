"""Headers of group administration on a broker.

Owns        field names.
Must not know   the group table. UPDATE_AND_CREATE_SUBSCRIPTIONGROUP has a body only.
"""

from __future__ import annotations

from rocketlake.protocol.fields import Header, Int32, RequestHeader, TopicHeader


class DeleteGroupHeader(RequestHeader, kw_only=True):
    """DELETE_SUBSCRIPTIONGROUP; `clean_offset` also forgets the group's offsets."""

    group_name: str
    clean_offset: bool = False


class GetGroupConfigHeader(RequestHeader, kw_only=True):
    """GET_SUBSCRIPTIONGROUP_CONFIG."""

    group: str


class GroupForbiddenHeader(RequestHeader, kw_only=True):
    """UPDATE_AND_GET_GROUP_FORBIDDEN; `readable` absent = only ask."""

    group: str
    topic: str
    readable: bool | None = None


class AllGroupsHeader(Header, kw_only=True):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: paging of peers newer than 5.3.3, all absent = everything."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class AllGroupsReplyHeader(Header, kw_only=True):
    """Answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""

    total_group_num: Int32


class ConsumerConnectionsHeader(RequestHeader, kw_only=True):
    """GET_CONSUMER_CONNECTION_LIST."""

    consumer_group: str


class ProducerConnectionsHeader(RequestHeader, kw_only=True):
    """GET_PRODUCER_CONNECTION_LIST."""

    producer_group: str


class ConsumeStatsHeader(TopicHeader, kw_only=True):
    """GET_CONSUME_STATS; `topic_list` holds names joined by ";"."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None

    @property
    def topics(self) -> list[str]:
        """Topics asked for, empty = all of the group."""
        if self.topic_list:
            return [name for name in self.topic_list.split(";") if name]
        return [self.topic] if self.topic else []


class BrokerConsumeStatsHeader(RequestHeader, kw_only=True):
    """GET_BROKER_CONSUME_STATS."""

    is_order: bool


class TopicsOfConsumerHeader(RequestHeader, kw_only=True):
    """QUERY_TOPICS_BY_CONSUMER."""

    group: str


class SubscriptionOfConsumerHeader(RequestHeader, kw_only=True):
    """QUERY_SUBSCRIPTION_BY_CONSUMER."""

    group: str
    topic: str | None = None


class ConsumeTimeSpanHeader(RequestHeader, kw_only=True):
    """QUERY_CONSUME_TIME_SPAN."""

    topic: str
    group: str


class CloneGroupOffsetHeader(RequestHeader, kw_only=True):
    """CLONE_GROUP_OFFSET."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class CorrectionOffsetHeader(TopicHeader, kw_only=True):
    """QUERY_CORRECTION_OFFSET; `filter_groups` are left out, with "," between them."""

    compare_group: str
    topic: str
    filter_groups: str | None = None
