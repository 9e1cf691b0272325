"""Headers of sending: SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE, send-back, their answer, replies, recalls.

Owns        field names, long and one-letter.
Must not know   records, batch bodies (codec/record_batch.py).
"""

from __future__ import annotations

from typing import Final

from msgspec import field

from rocketlake.base.errors import UsageError
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header, Int32, Int64, RequestHeader, TopicHeader
from rocketlake.protocol.request_code import RequestCode


class SendHeader(TopicHeader, kw_only=True):
    """SEND_MESSAGE, SEND_REPLY_MESSAGE: where a message goes; the body is the message body.

    `queue_id` below 0 lets the broker choose; `born_timestamp` in ms; `properties` is the property text of the message.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool | None = None


class SendHeaderV2(SendHeader, kw_only=True):
    """SEND_MESSAGE_V2, SEND_BATCH_MESSAGE, SEND_REPLY_MESSAGE_V2: the same fields under one-letter names."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_nums: Int32 = field(name="d")
    queue_id: Int32 = field(name="e")
    sys_flag: Int32 = field(name="f")
    born_timestamp: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    properties: str | None = field(default=None, name="i")
    reconsume_times: Int32 | None = field(default=None, name="j")
    unit_mode: bool | None = field(default=None, name="k")
    max_reconsume_times: Int32 | None = field(default=None, name="l")
    batch: bool | None = field(default=None, name="m")
    target_broker: str | None = field(default=None, name="n")


_LONG_NAMES: Final = frozenset((RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE))


def read_send_header(command: Command) -> SendHeader:
    """The header of any send request; the code tells long names from one-letter names. Raises HeaderError."""
    return command.header(SendHeader if command.code in _LONG_NAMES else SendHeaderV2)


class SendReplyHeader(Header, kw_only=True):
    """Answer of the send family (codes 0, 10, 11, 12). `msg_id` is the offset message id; of a batch, joined by ",".

    `known` is RocketLake's own: messages of the batch that were stored before and not again; without a new one `msg_id`
    is all zeros and `queue_offset` -1. `next_number` comes with it: how many messages of the producer's batch the queue
    holds now.
    """

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region: str | None = field(default=None, name="MSG_REGION")
    trace_on: bool | None = field(default=None, name="TRACE_ON")
    known: Int32 | None = field(default=None, name="rlKnown")
    next_number: Int64 | None = field(default=None, name="rlNext")


class SendBackHeader(RequestHeader, kw_only=True):
    """CONSUMER_SEND_MSG_BACK: consume the message at physical `offset` again, later.

    `delay_level` -1 = dead letter topic, 0 = the broker decides, above 0 = this level. `last_error` is RocketLake's
    own: how the consumer failed; Apache's brokers pass over it.
    """

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    last_error: str | None = None


class PushReplyHeader(SendHeader, kw_only=True):
    """PUSH_REPLY_MESSAGE_TO_CLIENT: the fields of the send that brought an answer, and where the broker had it from.

    The body is the message body. Hosts are `ip:port`, times in ms; `properties` holds CORRELATION_ID.
    """

    born_host: str
    store_host: str
    store_timestamp: Int64


def host_text(host: tuple[str, int]) -> str:
    """`ip:port` as headers carry it."""
    return f"{host[0]}:{host[1]}"


def parse_host_text(text: str) -> tuple[str, int]:
    """`ip:port` -> (ip, port); an IPv6 address may stand in brackets. Raises UsageError."""
    address, separator, port = text.rpartition(":")
    if not separator or not port.isdigit():
        raise UsageError(f"address {text[:100]!r} is not host:port", hint="write it as 127.0.0.1:9876")
    return address.strip("[]").lstrip("/"), int(port)


class RecallHeader(TopicHeader, kw_only=True):
    """RECALL_MESSAGE."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


class RecallReplyHeader(Header, kw_only=True):
    """Answer of RECALL_MESSAGE. `msg_id`: the unique key of the message that was taken back."""

    msg_id: str
    region: str | None = field(default=None, name="MSG_REGION")
