"""Headers of queue offsets: query, update, min, max, by time, earliest.

Owns        field names.
Must not know   the table of offsets.
"""

from __future__ import annotations

from rocketlake.protocol.fields import Header, Int32, Int64, TopicHeader


class QueryOffsetHeader(TopicHeader, kw_only=True):
    """QUERY_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class UpdateOffsetHeader(TopicHeader, kw_only=True):
    """UPDATE_CONSUMER_OFFSET; `commit_offset` is the next offset to consume."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffsetHeader(TopicHeader, kw_only=True):
    """SEARCH_OFFSET_BY_TIMESTAMP; `boundary_type` LOWER or UPPER in any case, any other text is LOWER."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str = "LOWER"

    @property
    def upper(self) -> bool:
        """True when the last offset at that time is asked for, not the first."""
        return self.boundary_type.upper() == "UPPER"


class MaxOffsetHeader(TopicHeader, kw_only=True):
    """GET_MAX_OFFSET."""

    topic: str
    queue_id: Int32
    committed: bool = True


class MinOffsetHeader(TopicHeader, kw_only=True):
    """GET_MIN_OFFSET."""

    topic: str
    queue_id: Int32


class EarliestTimeHeader(TopicHeader, kw_only=True):
    """GET_EARLIEST_MSG_STORETIME."""

    topic: str
    queue_id: Int32


class OffsetReplyHeader(Header, kw_only=True):
    """Answer of the query, search, min and max requests."""

    offset: Int64


class TimestampReplyHeader(Header, kw_only=True):
    """Answer of GET_EARLIEST_MSG_STORETIME: ms, -1 when the queue is empty."""

    timestamp: Int64
