"""POP_MESSAGE, POP_LITE_MESSAGE, ACK_MESSAGE, BATCH_ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME, NOTIFICATION.

Owns        headers and answers of these requests, the handle of each popped message (its property POP_CK).
Must not know   when to pop, what becomes of a message.

A message carries the topic that was popped, one that comes again too. Where it lies, says its handle.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from typing import NamedTuple

from rocketlake.base.errors import ProtocolError, UsageError
from rocketlake.client.calls.answer import DEFAULT_TIMEOUT_MS, ask
from rocketlake.client.calls.records import DamagedRecord, read_records
from rocketlake.model import property_names as names
from rocketlake.model.lite import LITE_QUEUE
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.pop import NO_RETRY, POINT_SPAN_MAX, PopHandle, mark_of, real_topic
from rocketlake.model.subscription import Subscription
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.pop import AckEntry, BatchAckBody
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.lite import PopLiteHeader, PopLiteReplyHeader
from rocketlake.protocol.headers.pop import (
    AckHeader,
    ChangeInvisibleHeader,
    ChangeInvisibleReplyHeader,
    NotificationHeader,
    NotificationReplyHeader,
    PopHeader,
    PopReplyHeader,
)
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = [
    "BORN_BY_BROKER",
    "POP_MAX",
    "LiteHandle",
    "PopAnswer",
    "ack",
    "ack_all",
    "change_invisible",
    "handle_of",
    "handles",
    "has_message",
    "lite_handles",
    "pop",
    "pop_lite",
    "queue_numbers",
]

POP_MAX = 32
"""Brokers refuse a pop for more messages."""
BORN_BY_BROKER = 0
"""The broker's own clock says when a pop began: another clock that is wrong would make it too old at once."""
_ANSWER_MS = 10_000
"""An answer that was to come at the end of the poll is waited for so much longer."""
_NUMBER = re.compile("[0-9]{1,18}")
_QUEUE_NUMBER = re.compile("(.*) (-?[0-9]{1,18})")
_NOTHING = (ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL, ResponseCode.PULL_NOT_FOUND)


@dataclass(slots=True)
class PopAnswer:
    """One pop. `damaged` are the records that are not among `messages` because they cannot be read."""

    messages: list[StoredMessage] = field(default_factory=list)
    damaged: list[DamagedRecord] = field(default_factory=list)
    is_full: bool = False
    """The broker keeps no more pops waiting."""
    pop_ms: int = 0
    """When the broker handed the messages out, by its clock."""


async def pop(
    net: NetClient,
    address: str,
    queue: MessageQueue,
    *,
    group: str,
    subscription: Subscription,
    max_messages: int,
    invisible_ms: int,
    poll_ms: int,
    from_first: bool,
) -> PopAnswer:
    """Take messages of a queue (ANY_QUEUE: of all queues of the broker) for `invisible_ms`.

    The broker holds the request up to `poll_ms` while there is none. `from_first`: where a new group starts.
    """
    header = PopHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        max_msg_nums=max_messages,
        invisible_time=invisible_ms,
        poll_time=poll_ms,
        born_time=BORN_BY_BROKER,
        init_mode=0 if from_first else 1,
        exp=subscription.expression,
        exp_type=subscription.expression_type,
    )
    command = Command.request(RequestCode.POP_MESSAGE, header)
    answer = await ask(net, address, command, poll_ms + _ANSWER_MS, accept=(ResponseCode.SUCCESS, *_NOTHING))
    if answer.code != ResponseCode.SUCCESS:
        return PopAnswer(is_full=answer.code == ResponseCode.POLLING_FULL)
    reply = answer.header(PopReplyHeader)
    found = read_records(answer.body_bytes, queue)
    damaged = [record.message for record in found.damaged if record.message is not None]
    _give_handles([*found.messages, *damaged], queue, reply)
    return PopAnswer(found.messages, found.damaged, pop_ms=reply.pop_time)


def _give_handles(messages: Sequence[StoredMessage], queue: MessageQueue, reply: PopReplyHeader) -> None:
    for message, handle in zip(messages, handles(reply, messages, queue.broker_name), strict=True):
        message.properties[names.POP_CK] = str(handle)
        message.properties.setdefault(names.FIRST_POP_TIME, str(reply.pop_time))
        message.topic = queue.topic


def handles(reply: PopReplyHeader, messages: Sequence[StoredMessage], broker_name: str) -> list[PopHandle]:
    """The handles of the messages of an answer, one by one. ProtocolError for a header that no broker writes.

    RocketMQ's MQClientAPIImpl: the broker names the handles of a queue together, those of retries one by one.
    """
    starts = queue_numbers(reply.start_offset_info)
    found = []
    for message in messages:
        known = message.properties.get(names.POP_CK)
        if known is None:
            mark = mark_of(message.topic)
            handle = PopHandle(
                starts.setdefault(f"{mark} {message.queue_id}", message.queue_offset),
                reply.pop_time,
                reply.invisible_time,
                reply.revive_qid,
                mark,
                broker_name,
                message.queue_id,
                message.queue_offset,
            )
        else:
            handle = PopHandle.parse(known)
            if handle.offset < 0:
                handle = replaced(handle, offset=message.queue_offset)
        found.append(handle)
    return found


async def pop_lite(
    net: NetClient,
    address: str,
    queue: MessageQueue,
    *,
    group: str,
    client_id: str,
    max_messages: int,
    invisible_ms: int,
    poll_ms: int,
) -> PopAnswer:
    """The same of the lite topics of `queue.topic` that the client subscribes to."""
    header = PopLiteHeader(
        client_id=client_id,
        consumer_group=group,
        topic=queue.topic,
        max_msg_num=max_messages,
        invisible_time=invisible_ms,
        poll_time=poll_ms,
        born_time=BORN_BY_BROKER,
    )
    command = Command.request(RequestCode.POP_LITE_MESSAGE, header)
    answer = await ask(net, address, command, poll_ms + _ANSWER_MS, accept=(ResponseCode.SUCCESS, *_NOTHING))
    if answer.code != ResponseCode.SUCCESS:
        return PopAnswer(is_full=answer.code == ResponseCode.POLLING_FULL)
    reply = answer.header(PopLiteReplyHeader)
    found = read_records(answer.body_bytes, queue)
    records = found.in_order()
    for message, known in zip(records, lite_handles(reply, records, queue.broker_name), strict=True):
        if message is not None and known is not None:
            message.properties[names.POP_CK] = str(known.handle)
            message.properties.setdefault(names.FIRST_POP_TIME, str(reply.pop_time))
            message.reconsume_times = known.tries
    return PopAnswer(found.messages, found.damaged, pop_ms=reply.pop_time)


class LiteHandle(NamedTuple):
    """One lite message of an answer."""

    handle: PopHandle
    lite: str
    tries: int
    """How often it was handed out before."""


def lite_handles(
    reply: PopLiteReplyHeader, records: Sequence[StoredMessage | None], broker_name: str
) -> Iterator[LiteHandle | None]:
    """The handles of the records of an answer, one by one; None for a record that cannot be read.

    ProtocolError for an answer that no broker gives.
    """
    counts = (reply.order_count_info or "").split(";")
    if len(counts) != len(records) or not all(map(_NUMBER.fullmatch, counts)):
        raise ProtocolError("the answer of a pop of lite messages does not count each message")
    for message, count in zip(records, counts, strict=True):
        if message is None:
            yield None
            continue
        text, lite = message.properties.get(names.INNER_MULTI_QUEUE_OFFSET, ""), message.lite_topic
        if not _NUMBER.fullmatch(text) or not lite:
            raise ProtocolError("a lite message says neither its lite topic nor its number")
        number = int(text)
        times = reply.pop_time, reply.invisible_time, reply.revive_qid
        yield LiteHandle(PopHandle(number, *times, NO_RETRY, broker_name, LITE_QUEUE, number), lite, int(count))


def queue_numbers(text: str | None) -> dict[str, int]:
    """The entries `mark queue number` of an answer, joined by ";": the number of each `mark queue`. ProtocolError."""
    numbers = {}
    for entry in (text or "").split(";"):
        if entry:
            found = _QUEUE_NUMBER.fullmatch(entry)
            if found is None:
                raise ProtocolError(f"the answer of a pop holds {entry[:80]!r}, which names no number of a queue")
            numbers[found[1]] = int(found[2])
    return numbers


def handle_of(message: StoredMessage) -> PopHandle:
    """The handle of a popped message. UsageError if it has none."""
    text = message.properties.get(names.POP_CK)
    if text is None:
        raise UsageError(
            f"message {message.message_id} was not popped, so it has no handle",
            hint="acknowledge the messages that `receive` returns; their property POP_CK must be as it came",
        )
    return PopHandle.parse(text)


async def ack(
    net: NetClient,
    address: str,
    group: str,
    topic: str,
    handle: PopHandle,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    *,
    lite: str | None = None,
) -> None:
    """The message is done with. `topic`: the one that was popped; `lite`: the lite topic, if `pop_lite` popped it."""
    header = AckHeader(
        consumer_group=group,
        topic=real_topic(topic, group, handle.mark),
        queue_id=handle.queue_id,
        extra_info=str(handle),
        offset=handle.offset,
        lite_topic=lite,
    )
    await ask(net, address, Command.request(RequestCode.ACK_MESSAGE, header), timeout_ms)


async def ack_all(
    net: NetClient,
    address: str,
    group: str,
    handles: Iterable[tuple[str, PopHandle]],
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> None:
    """These messages, (popped topic, handle), of one broker are done with."""
    points: dict[tuple[str, PopHandle], int] = defaultdict(int)
    name = ""
    for topic, handle in handles:
        name = handle.broker_name
        start = handle.start_offset
        if handle.offset - start >= POINT_SPAN_MAX:  # no entry of a request for many holds it
            await ack(net, address, group, topic, handle, timeout_ms)
        else:
            points[topic, replaced(handle, offset=start)] |= 1 << (handle.offset - start)
    if not points:
        return
    entries = [
        AckEntry(
            bits=bits.to_bytes((bits.bit_length() + 7) // 8, "little"),
            group=group,
            invisible_ms=point.invisible_ms,
            pop_ms=point.pop_ms,
            queue_id=point.queue_id,
            retry=point.mark,
            revive_queue=point.revive_queue,
            start_offset=point.start_offset,
            topic=topic,
        )
        for (topic, point), bits in points.items()
    ]
    body = BatchAckBody(acks=entries, broker_name=name).encode()
    await ask(net, address, Command.request(RequestCode.BATCH_ACK_MESSAGE, body=body), timeout_ms)


async def change_invisible(
    net: NetClient,
    address: str,
    group: str,
    topic: str,
    handle: PopHandle,
    *,
    invisible_ms: int,
    lite: str | None = None,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> PopHandle:
    """The message comes again so long from now on; returns its new handle, which the old one is no longer."""
    header = ChangeInvisibleHeader(
        consumer_group=group,
        topic=real_topic(topic, group, handle.mark),
        queue_id=handle.queue_id,
        extra_info=str(handle),
        offset=handle.offset,
        invisible_time=invisible_ms,
        lite_topic=lite,
    )
    answer = await ask(net, address, Command.request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header), timeout_ms)
    reply = answer.header(ChangeInvisibleReplyHeader)
    return replaced(
        handle,
        start_offset=handle.offset,
        pop_ms=reply.pop_time,
        invisible_ms=reply.invisible_time,
        revive_queue=reply.revive_qid,
    )


async def has_message(
    net: NetClient, address: str, queue: MessageQueue, group: str, subscription: Subscription, poll_ms: int
) -> bool | None:
    """True as soon as there is something to pop; False when the time is up, None if the broker lets no more wait."""
    header = NotificationHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        poll_time=poll_ms,
        born_time=BORN_BY_BROKER,
        exp=subscription.expression,
        exp_type=subscription.expression_type,
    )
    command = Command.request(RequestCode.NOTIFICATION, header)
    answer = await ask(net, address, command, poll_ms + _ANSWER_MS, accept=(ResponseCode.SUCCESS, *_NOTHING))
    if answer.code != ResponseCode.SUCCESS:
        return None if answer.code == ResponseCode.POLLING_FULL else False
    reply = answer.header(NotificationReplyHeader)
    return True if reply.has_msg else None if reply.polling_full else False
