"""Headers of PULL_MESSAGE and LITE_PULL_MESSAGE, and the bits of a pull's sysFlag.

Owns        field names, flag bits.
Must not know   reading, holding.
"""

from __future__ import annotations

from typing import Final

from rocketlake.protocol.fields import Header, Int32, Int64, TopicHeader

PULL_COMMIT_OFFSET: Final = 1
"""`commit_offset` is valid: store it before reading."""
PULL_SUSPEND: Final = 2
"""Hold the request while there is no message to read (long polling)."""
PULL_SUBSCRIPTION: Final = 4
"""`subscription` holds the expression to filter by."""
PULL_CLASS_FILTER: Final = 8
PULL_LITE: Final = 16


class PullHeader(TopicHeader, kw_only=True):
    """PULL_MESSAGE, LITE_PULL_MESSAGE: read a queue from `queue_offset`.

    `sys_flag` is made of the PULL_ bits; `suspend_timeout_millis` is how long the broker may hold the request.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None  # Java spells it so


class PullReplyHeader(Header, kw_only=True):
    """Answer of a pull; the body of a FOUND answer is the records one after the other."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


def pull_reply_fields(
    next_offset: int,
    min_offset: int,
    max_offset: int,
    topic_sys_flag: int,
    group_sys_flag: int,
    suggested_broker_id: int = 0,
) -> dict[str, str]:
    """The fields of a PullReplyHeader, without the struct: no mapping, no forbidden flags."""
    return {
        "suggestWhichBrokerId": str(suggested_broker_id),
        "nextBeginOffset": str(next_offset),
        "minOffset": str(min_offset),
        "maxOffset": str(max_offset),
        "topicSysFlag": str(topic_sys_flag),
        "groupSysFlag": str(group_sys_flag),
    }
