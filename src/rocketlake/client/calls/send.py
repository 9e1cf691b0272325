"""SEND_MESSAGE_V2, SEND_BATCH_MESSAGE, SEND_REPLY_MESSAGE_V2, CONSUMER_SEND_MSG_BACK: one attempt at one address.

Owns        a message made ready to send (compressed, property text, ids), the send request, the meaning of its answer.
Must not know   retries, choice of queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from rocketlake.client.calls.answer import ask, is_of_slave, refusal
from rocketlake.client.errors import NotSafe
from rocketlake.codec import compression, property_text
from rocketlake.model import property_names as names
from rocketlake.model import sys_flag
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import RETRY_PREFIX
from rocketlake.model.topic import TEMPLATE_TOPIC
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import to_fields
from rocketlake.protocol.header_binary import encode_fields
from rocketlake.protocol.headers.send import SendBackHeader, SendHeaderV2, SendReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode


class SendStatus(Enum):
    """How safe the message is: OK, or stored but not yet flushed or copied as the broker's settings ask."""

    OK = ResponseCode.SUCCESS
    FLUSH_DISK_TIMEOUT = ResponseCode.FLUSH_DISK_TIMEOUT
    SLAVE_NOT_AVAILABLE = ResponseCode.SLAVE_NOT_AVAILABLE
    FLUSH_SLAVE_TIMEOUT = ResponseCode.FLUSH_SLAVE_TIMEOUT


STATUSES: dict[int, SendStatus] = {status.value: status for status in SendStatus}
FIXED_PARTS_MAX = 1024
REPLY_TYPE = "reply"
"""The value of the property MSG_TYPE that makes a message an answer to a request."""
_BATCH_CODE = int(RequestCode.SEND_BATCH_MESSAGE)
_CODE = int(RequestCode.SEND_MESSAGE_V2)
_REPLY_CODE = int(RequestCode.SEND_REPLY_MESSAGE_V2)


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """The place at which a message, or the first of a batch, was stored."""

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str = ""
    region: str = ""
    recall_handle: str = ""
    """Of a message that waits for its time (`deliver_at`, `delay`): `producer.recall` takes it back."""
    trace_on: bool = True
    """False: the broker wants no trace of it."""


def not_safe(topic: str, results: Sequence[SendResult]) -> NotSafe | None:
    """The error that names those of these results that are not OK, if there are any."""
    late = [result for result in results if result.status is not SendStatus.OK]
    if not late:
        return None
    first = late[0]
    where = f"broker {first.queue.broker_name}, queue {first.queue.queue_id}, offset {first.queue_offset}"
    return NotSafe(topic, len(late), first.status.name, where=where)


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A message ready for the wire; used by every attempt. `properties` is property text, the body may be compressed.

    `count` > 0: a batch of that many messages. `code`: of the request that sends a single message.
    """

    topic: str
    message_id: str
    body: bytes
    properties: bytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    reconsume_limit: int | None = None
    count: int = 0
    code: int = _CODE


class Sender:
    """Writes the send requests of one producer group.

    The group's name goes into each request, as do the template and the number of queues with which a broker makes a
    topic that does not exist yet. Most of the header is alike for all messages to one queue and is encoded once.
    """

    def __init__(self, group: str, template_topic: str = TEMPLATE_TOPIC, new_topic_queues: int = 4) -> None:
        self.group = group
        self.template_topic = template_topic
        self.new_topic_queues = new_topic_queues
        self._fixed_parts: dict[tuple[object, ...], bytes] = {}
        self._born_ms = -1
        self._born_part = b""

    def command(self, outgoing: Outgoing, queue: MessageQueue, born_ms: int) -> Command:
        """The request that sends it to this queue."""
        is_batch = outgoing.count > 0
        fixed = self.fixed_part(outgoing, queue)
        if born_ms != self._born_ms:
            self._born_ms, self._born_part = born_ms, encode_fields({"g": str(born_ms)})
        properties = outgoing.properties
        block = b"".join((fixed, self._born_part, _PROPERTIES_KEY, len(properties).to_bytes(4, "big"), properties))
        return Command(_BATCH_CODE if is_batch else outgoing.code, block=block, body=outgoing.body)

    def fixed_part(self, outgoing: Outgoing, queue: MessageQueue) -> bytes:
        """The fields that all messages of this kind to this queue share, encoded: all but birth time and properties."""
        key = (
            queue, outgoing.sys_flag, outgoing.flag, outgoing.reconsume_times, outgoing.reconsume_limit,
            outgoing.count > 0,
        )  # fmt: skip
        return self._fixed_parts.get(key) or self._fix(key, outgoing, queue)

    def _fix(self, key: tuple[object, ...], outgoing: Outgoing, queue: MessageQueue) -> bytes:
        header = SendHeaderV2(
            producer_group=self.group,
            topic=outgoing.topic,
            default_topic=self.template_topic,
            default_topic_queue_nums=self.new_topic_queues,
            queue_id=queue.queue_id,
            sys_flag=outgoing.sys_flag,
            born_timestamp=0,
            flag=outgoing.flag,
            reconsume_times=outgoing.reconsume_times,
            unit_mode=False,
            max_reconsume_times=outgoing.reconsume_limit,
            batch=outgoing.count > 0,
            target_broker=queue.broker_name,
        )
        fields = to_fields(header)
        del fields["g"]
        part = encode_fields(fields)
        if len(self._fixed_parts) >= FIXED_PARTS_MAX:
            self._fixed_parts.clear()
        self._fixed_parts[key] = part
        return part


_PROPERTIES_KEY = b"\0\1i"


def prepare(
    message: Message,
    unique_key: str,
    *,
    compress_over: int | None = None,
    compression_type: int = sys_flag.ZLIB,
    compression_level: int = 5,
) -> Outgoing:
    """Compress a body of `compress_over` bytes or more, give the message a unique key unless it has one.

    A body that does not become smaller goes as it is: a body within the limit is not sent in a form above it.
    """
    properties = dict(message.properties)
    message_id = properties.setdefault(names.UNIQUE_KEY, unique_key)
    body, flags = message.body, 0
    if compress_over is not None and len(body) >= max(compress_over, 1):
        packed = compression.compress(body, compression_type, compression_level)
        if len(packed) < len(body):
            body, flags = packed, sys_flag.mark_compressed(0, compression_type)
    reconsume_times, reconsume_limit = 0, None
    encode = property_text.encode
    if message.topic.startswith(RETRY_PREFIX):
        encode = property_text.encode_again  # a copy of a message that was read
        reconsume_times = int(properties.get(names.RECONSUME_TIME, 0))
        if names.MAX_RECONSUME_TIMES in properties:
            reconsume_limit = int(properties[names.MAX_RECONSUME_TIMES])
    return Outgoing(
        message.topic,
        message_id,
        body,
        encode(properties),
        flag=message.flag,
        sys_flag=flags,
        reconsume_times=reconsume_times,
        reconsume_limit=reconsume_limit,
        code=_REPLY_CODE if properties.get(names.MESSAGE_TYPE) == REPLY_TYPE else _CODE,
    )


async def send(
    net: NetClient,
    address: str,
    outgoing: Outgoing,
    queue: MessageQueue,
    sender: Sender,
    *,
    born_ms: int,
    timeout_ms: int,
) -> SendResult:
    """One attempt. Raises RemoteError when the broker refused, LinkError when it did not answer."""
    answer = await net.invoke(address, sender.command(outgoing, queue, born_ms), timeout_ms)
    return result_of(answer, outgoing, queue, address)


def result_of(answer: Command, outgoing: Outgoing, queue: MessageQueue, address: str) -> SendResult:
    """The result in the broker's answer. Raises RemoteError for a refusal."""
    status = STATUSES.get(answer.code)
    if status is None or is_of_slave(answer):
        raise refusal(answer, _BATCH_CODE if outgoing.count else outgoing.code, address)
    reply = answer.header(SendReplyHeader)
    return SendResult(
        status,
        outgoing.message_id,
        reply.msg_id,
        queue if queue.queue_id == reply.queue_id else MessageQueue(outgoing.topic, queue.broker_name, reply.queue_id),
        reply.queue_offset,
        reply.transaction_id or "",
        reply.region or "",
        reply.recall_handle or "",
        reply.trace_on is not False,
    )


async def send_oneway(
    net: NetClient, address: str, outgoing: Outgoing, queue: MessageQueue, sender: Sender, *, born_ms: int
) -> None:
    """Write the request and do not wait: the broker does not say whether it stored the message."""
    await net.invoke_oneway(address, sender.command(outgoing, queue, born_ms))


async def send_back(
    net: NetClient,
    address: str,
    message: StoredMessage,
    *,
    group: str,
    delay_level: int,
    reconsume_limit: int,
    timeout_ms: int,
) -> None:
    """Ask the message's broker to deliver it again later (`delay_level` 0: the broker chooses, -1: dead letter)."""
    header = SendBackHeader(
        offset=message.physical_offset,
        group=group,
        delay_level=delay_level,
        origin_msg_id=message.message_id,
        origin_topic=message.topic,
        max_reconsume_times=reconsume_limit,
        target_broker=message.broker_name,
        last_error=message.properties.get(names.LAST_ERROR),
    )
    await ask(net, address, Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header), timeout_ms)
