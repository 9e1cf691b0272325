"""Headers of topic administration on a broker.

Owns        field names.
Must not know   the topic table. Codes without header fields (21, 305, 306 ...) have no class.
"""

from __future__ import annotations

from rocketlake.protocol.fields import Header, Int32, RequestHeader, TopicHeader


class CreateTopicHeader(TopicHeader, kw_only=True):
    """UPDATE_AND_CREATE_TOPIC; `attributes` as `+key=value,-key`."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool = False


class DeleteTopicHeader(TopicHeader, kw_only=True):
    """DELETE_TOPIC_IN_BROKER."""

    topic: str


class GetTopicConfigHeader(TopicHeader, kw_only=True):
    """GET_TOPIC_CONFIG."""

    topic: str


class TopicStatsHeader(TopicHeader, kw_only=True):
    """GET_TOPIC_STATS_INFO."""

    topic: str


class AllTopicsHeader(Header, kw_only=True):
    """GET_ALL_TOPIC_CONFIG: paging of peers newer than 5.3.3, all absent = everything."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class AllTopicsReplyHeader(Header, kw_only=True):
    """Answer of GET_ALL_TOPIC_CONFIG."""

    total_topic_num: Int32


class TopicConsumersHeader(RequestHeader, kw_only=True):
    """QUERY_TOPIC_CONSUME_BY_WHO."""

    topic: str
