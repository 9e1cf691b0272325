"""Headers of looking messages up: by key, by physical offset, by the time for which they wait.

Owns        field names.
Must not know   the key index.
"""

from __future__ import annotations

from msgspec import field

from rocketlake.protocol.fields import Header, Int32, Int64, RequestHeader, TopicHeader


class QueryMessageHeader(TopicHeader, kw_only=True):
    """QUERY_MESSAGE: messages of `topic` with `key`, stored between two times in ms.

    `unique_key`: the key is a UNIQ_KEY, not a business key (Java always sends it).
    """

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key: bool = field(default=False, name="_UNIQUE_KEY_QUERY")


class QueryConsumeQueueHeader(TopicHeader, kw_only=True):
    """QUERY_CONSUME_QUEUE: `count` entries from `index` on; with a group also the subscription of that group."""

    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None


class QueryMessageReplyHeader(Header, kw_only=True):
    """Answer of QUERY_MESSAGE; the body is the records one after the other."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageHeader(RequestHeader, kw_only=True):
    """VIEW_MESSAGE_BY_ID: the record at this physical offset."""

    offset: Int64
    topic: str | None = None


class WaitingMessagesHeader(RequestHeader, kw_only=True):
    """GET_WAITING_MESSAGES: those due from `from_ms` on and before `to_ms`, of `topic` or of all.

    `limit`: most entries of the answer; 0: none, but the counts of each topic. `tick`, `place`: where the last answer
    ended.
    """

    topic: str | None = None
    from_ms: Int64 = 0
    to_ms: Int64 = 2**62
    limit: Int32 = 100
    tick: Int64 = 0
    place: Int64 = -1
