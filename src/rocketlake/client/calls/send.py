"""SEND_MESSAGE_V2, SEND_BATCH_MESSAGE, CONSUMER_SEND_MSG_BACK: one attempt at one address.

Owns        a message made ready to send (compressed, property text, ids), the send request, the meaning of its answer.
Must not know   retries, choice of queues.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rocketlake.client.calls.answer import ask
from rocketlake.codec import compression, property_text
from rocketlake.model import property_names as names
from rocketlake.model import sys_flag
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import RETRY_PREFIX
from rocketlake.model.topic import TEMPLATE_TOPIC
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.send import SendBackHeader, SendHeaderV2, SendReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode


class SendStatus(Enum):
    """How sure the broker is: OK, or stored but not (yet) flushed or copied as its settings ask."""

    OK = ResponseCode.SUCCESS
    FLUSH_DISK_TIMEOUT = ResponseCode.FLUSH_DISK_TIMEOUT
    SLAVE_NOT_AVAILABLE = ResponseCode.SLAVE_NOT_AVAILABLE
    FLUSH_SLAVE_TIMEOUT = ResponseCode.FLUSH_SLAVE_TIMEOUT


STORED = frozenset(status.value for status in SendStatus)


@dataclass(frozen=True, slots=True)
class SendResult:
    """Where a message (or the first of a batch) was stored."""

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends, and how a topic is made that there is not yet: after which template, with how many queues."""

    group: str
    template_topic: str = TEMPLATE_TOPIC
    new_topic_queues: int = 4


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message ready for the wire; used by every attempt. `properties` is property text, the body may be compressed.

    `count` > 0: a batch of that many messages.
    """

    topic: str
    message_id: str
    body: bytes
    properties: str
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    reconsume_limit: int | None = None
    count: int = 0


def prepare(
    message: Message,
    unique_key: str,
    *,
    compress_over: int | None = None,
    compression_type: int = sys_flag.ZLIB,
    compression_level: int = 5,
) -> Outgoing:
    """Compress a body of `compress_over` bytes or more, give the message a unique key unless it has one."""
    properties = dict(message.properties)
    message_id = properties.setdefault(names.UNIQUE_KEY, unique_key)
    body, flags = message.body, 0
    if compress_over is not None and len(body) >= max(compress_over, 1):
        body = compression.compress(body, compression_type, compression_level)
        flags = sys_flag.mark_compressed(0, compression_type)
    reconsume_times, reconsume_limit = 0, None
    if message.topic.startswith(RETRY_PREFIX):
        reconsume_times = int(properties.get(names.RECONSUME_TIME, 0))
        if names.MAX_RECONSUME_TIMES in properties:
            reconsume_limit = int(properties[names.MAX_RECONSUME_TIMES])
    return Outgoing(
        message.topic,
        message_id,
        body,
        property_text.encode(properties).decode(),
        flag=message.flag,
        sys_flag=flags,
        reconsume_times=reconsume_times,
        reconsume_limit=reconsume_limit,
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
    answer = await ask(net, address, _command(outgoing, queue, sender, born_ms), timeout_ms, accept=STORED)
    reply = answer.header(SendReplyHeader)
    return SendResult(
        SendStatus(ResponseCode(answer.code)),
        outgoing.message_id,
        reply.msg_id,
        MessageQueue(outgoing.topic, queue.broker_name, reply.queue_id),
        reply.queue_offset,
        reply.transaction_id or "",
        reply.region or "",
    )


async def send_oneway(
    net: NetClient, address: str, outgoing: Outgoing, queue: MessageQueue, sender: Sender, *, born_ms: int
) -> None:
    """Write the request and do not wait: nobody says whether it was stored."""
    await net.invoke_oneway(address, _command(outgoing, queue, sender, born_ms))


def _command(outgoing: Outgoing, queue: MessageQueue, sender: Sender, born_ms: int) -> Command:
    header = SendHeaderV2(
        producer_group=sender.group,
        topic=outgoing.topic,
        default_topic=sender.template_topic,
        default_topic_queue_nums=sender.new_topic_queues,
        queue_id=queue.queue_id,
        sys_flag=outgoing.sys_flag,
        born_timestamp=born_ms,
        flag=outgoing.flag,
        properties=outgoing.properties,
        reconsume_times=outgoing.reconsume_times,
        unit_mode=False,
        max_reconsume_times=outgoing.reconsume_limit,
        batch=outgoing.count > 0,
        target_broker=queue.broker_name,
    )
    code = RequestCode.SEND_BATCH_MESSAGE if outgoing.count else RequestCode.SEND_MESSAGE_V2
    return Command.request(code, header, outgoing.body)


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
    """Ask the message's broker to bring it again later (0: it chooses when, -1: to the dead letters)."""
    header = SendBackHeader(
        offset=message.physical_offset,
        group=group,
        delay_level=delay_level,
        origin_msg_id=message.message_id,
        origin_topic=message.topic,
        max_reconsume_times=reconsume_limit,
        target_broker=message.broker_name,
    )
    await ask(net, address, Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header), timeout_ms)
