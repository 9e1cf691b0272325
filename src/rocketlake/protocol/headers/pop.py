"""Headers of pops: pop, acknowledge, change the invisible time, look, ask to be notified.

Owns        field names.
Must not know   what a pop does; the handle inside `extra_info` (model/pop.py).
"""

from __future__ import annotations

from rocketlake.protocol.fields import Header, Int32, Int64, TopicHeader


class PopHeader(TopicHeader, kw_only=True):
    """POP_MESSAGE. Times in ms; `queue_id` below 0: any queue; `init_mode` 0: from the first message, 1: the last."""

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    init_mode: Int32
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PopReplyHeader(Header, kw_only=True):
    """Answer of a pop; the body holds the records. Offsets: docs/internals/wire.md, "POP"."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckHeader(TopicHeader, kw_only=True):
    """ACK_MESSAGE; `topic` is the one that the message lies in."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    lite_topic: str | None = None


class ChangeInvisibleHeader(AckHeader, kw_only=True):
    """CHANGE_MESSAGE_INVISIBLETIME; `suspend`: given back without counting a try."""

    invisible_time: Int64
    suspend: bool = False


class ChangeInvisibleReplyHeader(Header, kw_only=True):
    """Answer: what the handle of the message holds from now on."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class NotificationHeader(TopicHeader, kw_only=True):
    """NOTIFICATION: say when there is something to pop."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


class NotificationReplyHeader(Header, kw_only=True):
    """Answer of NOTIFICATION."""

    has_msg: bool
    polling_full: bool = False


class PollingInfoHeader(TopicHeader, kw_only=True):
    """POLLING_INFO: how many pops wait."""

    consumer_group: str
    topic: str
    queue_id: Int32


class PollingInfoReplyHeader(Header, kw_only=True):
    """Answer of POLLING_INFO."""

    polling_num: Int32


class PeekHeader(TopicHeader, kw_only=True):
    """PEEK_MESSAGE: read what a pop would get."""

    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    consumer_group: str
