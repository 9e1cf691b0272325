"""Queue offsets: committed, smallest, largest, by time.

Owns        the offset requests.
Must not know   when an offset is committed.
"""

from __future__ import annotations

from rocketlake.client.calls.answer import DEFAULT_TIMEOUT_MS, ask
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.stats import TopicStats
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import RequestHeader
from rocketlake.protocol.headers.admin_topic import TopicStatsHeader
from rocketlake.protocol.headers.offset import (
    EarliestTimeHeader,
    MaxOffsetHeader,
    MinOffsetHeader,
    OffsetReplyHeader,
    QueryOffsetHeader,
    SearchOffsetHeader,
    TimestampReplyHeader,
    UpdateOffsetHeader,
)
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode


async def committed_offset(
    net: NetClient,
    address: str,
    group: str,
    queue: MessageQueue,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    *,
    zero_if_young: bool = True,
) -> int:
    """The group's offset in this queue; -1 when it never committed.

    `zero_if_young`: a broker answers 0 for a queue whose first message lies in memory, if the group never committed.
    """
    header = QueryOffsetHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        set_zero_if_not_found=None if zero_if_young else False,
    )
    command = Command.request(RequestCode.QUERY_CONSUMER_OFFSET, header)
    answer = await ask(net, address, command, timeout_ms, accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND))
    return -1 if answer.code == ResponseCode.QUERY_NOT_FOUND else answer.header(OffsetReplyHeader).offset


async def commit_offset(
    net: NetClient, address: str, group: str, queue: MessageQueue, offset: int, timeout_ms: int = DEFAULT_TIMEOUT_MS
) -> None:
    """Set the group's offset: the next message it will read."""
    header = UpdateOffsetHeader(consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset)
    await ask(net, address, Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header), timeout_ms)


async def max_offset(net: NetClient, address: str, queue: MessageQueue, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
    """The offset the next message will get."""
    header = MaxOffsetHeader(topic=queue.topic, queue_id=queue.queue_id)
    return await _offset(net, address, RequestCode.GET_MAX_OFFSET, header, timeout_ms)


async def min_offset(net: NetClient, address: str, queue: MessageQueue, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
    """The offset of the oldest message kept."""
    header = MinOffsetHeader(topic=queue.topic, queue_id=queue.queue_id)
    return await _offset(net, address, RequestCode.GET_MIN_OFFSET, header, timeout_ms)


async def offset_by_time(
    net: NetClient,
    address: str,
    queue: MessageQueue,
    timestamp_ms: int,
    *,
    upper: bool = False,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> int:
    """The first offset stored at or after this time (`upper`: the last one at this time)."""
    boundary = "UPPER" if upper else "LOWER"
    header = SearchOffsetHeader(
        topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms, boundary_type=boundary
    )
    return await _offset(net, address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header, timeout_ms)


async def topic_ends(
    net: NetClient, address: str, topic: str, timeout_ms: int = DEFAULT_TIMEOUT_MS
) -> dict[MessageQueue, tuple[int, int]]:
    """The oldest offset kept and the next one, of all queues that the topic has at one broker."""
    command = Command.request(RequestCode.GET_TOPIC_STATS_INFO, TopicStatsHeader(topic=topic))
    answer = await ask(net, address, command, timeout_ms)
    stats = TopicStats.decode(answer.body_bytes)
    return {queue: (ends.min_offset, ends.max_offset) for queue, ends in stats.offsets.items()}


async def earliest_store_ms(
    net: NetClient, address: str, queue: MessageQueue, timeout_ms: int = DEFAULT_TIMEOUT_MS
) -> int:
    """When the oldest message kept was stored, epoch ms; -1 for an empty queue."""
    header = EarliestTimeHeader(topic=queue.topic, queue_id=queue.queue_id)
    answer = await ask(net, address, Command.request(RequestCode.GET_EARLIEST_MSG_STORETIME, header), timeout_ms)
    return answer.header(TimestampReplyHeader).timestamp


async def _offset(net: NetClient, address: str, code: RequestCode, header: RequestHeader, timeout_ms: int) -> int:
    answer = await ask(net, address, Command.request(code, header), timeout_ms)
    return answer.header(OffsetReplyHeader).offset
