"""The progress of groups: lag, reset, copy, ages.

Owns        the answers about group offsets, their changes by administrators.
Must not know   how offsets are kept, how messages lie in a queue.

Source: docs/internals/admin.md. A reset is served by the broker, as in RocketMQ 5 (useServerSideResetOffset): it sends
the group's next pull to the new offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial

from rocketlake.base.clock import Clock, Millis
from rocketlake.base.errors import RemoteError
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.cluster.outbound import Identity
from rocketlake.broker.cold_requests import ColdRequests
from rocketlake.broker.counters import GROUP_GET_NUMS
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.long_polling.pull_hold import PullHold
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.pop.progress import PopProgress
from rocketlake.broker.stats import BrokerStats
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.positions import QueueOffset
from rocketlake.model.topic import TopicConfig
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.long_text import check_room, encoding
from rocketlake.protocol.bodies.offset import ResetOffsets
from rocketlake.protocol.bodies.queue_map import QueueEntry
from rocketlake.protocol.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    ConsumeTimeSpan,
    ConsumeTimeSpans,
    GroupOffsets,
    GroupRows,
    GroupTopic,
    TopicList,
)
from rocketlake.protocol.command import Buffer
from rocketlake.protocol.headers.admin_group import (
    BrokerConsumeStatsHeader,
    CloneGroupOffsetHeader,
    ConsumeStatsHeader,
    ConsumeTimeSpanHeader,
    TopicsOfConsumerHeader,
)
from rocketlake.protocol.headers.client import ResetOffsetHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore

__all__ = ["AdminOffset"]

_NONE = -1


class AdminOffset:
    """Consume stats, resets, copies, ages, the whole table."""

    def __init__(
        self,
        *,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        consumers: ConsumerTable,
        store: MessageStore,
        cold_requests: ColdRequests,
        hold: PullHold,
        stats: BrokerStats,
        identity: Callable[[], Identity],
        pops: PopProgress,
        clock: Clock,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._consumers = consumers
        self._store = store
        self._cold_requests = cold_requests
        self._hold = hold
        self._stats = stats
        self._identity = identity
        self._pops = pops
        self._clock = clock

    def all(self, _request: Request) -> ReplySteps:
        """GET_ALL_CONSUMER_OFFSET: the text of consumerOffset.json."""
        parts: list[Buffer] = []
        for part in self._offsets.text_parts():
            parts.append(part.encode())
            yield
        return Reply(body=parts)

    def consume_stats(self, request: Request) -> ReplySteps:
        """GET_CONSUME_STATS: ends of queues and the group's offsets, for its topics or the topics asked for."""
        header = request.header(ConsumeStatsHeader)
        group = header.consumer_group
        topics = []
        rate = 0.0
        for name in header.topics or self._offsets.topics_of(group):
            topic = self._topics.get(name)
            if topic is not None and (header.topic_list or self._is_consumed(group, name)):
                topics.append(topic)
                rate += self._rate(group, topic)
            yield
        check_room(*[(topic.read_queues, (self._queue(topic.name, 0), GroupOffsets())) for topic in topics])
        rows = (row for topic in topics for row in self._rows(request, topic, group))
        return Reply(body=(yield from ConsumeStats.encoding(rows, rate)))

    def broker_consume_stats(self, request: Request) -> ReplySteps:
        """GET_BROKER_CONSUME_STATS: the same for every group, for ordered topics or for all others."""
        wants_ordered = request.header(BrokerConsumeStatsHeader).is_order
        groups = self._groups_with_offsets(request, wants_ordered)
        return Reply(body=(yield from ConsumeStatsList(self._identity().address).encoding(groups)))

    def _groups_with_offsets(self, request: Request, ordered: bool) -> Iterator[tuple[str, Iterator[GroupTopic]]]:
        """Groups that have an offset in an ordered topic; with `ordered` False, in another topic."""
        for group in self._groups.all():
            names = self._offsets.topics_of(group)
            topics = [topic for name in names if (topic := self._topics.get(name)) is not None]
            if wanted := [topic for topic in topics if topic.order == ordered]:
                yield group, self._topics_of(request, group, wanted)

    def _topics_of(self, request: Request, group: str, topics: list[TopicConfig]) -> Iterator[GroupTopic]:
        for topic in topics:
            yield self._rate(group, topic), self._rows(request, topic, group)

    def reset(self, request: Request) -> ReplySteps:
        """INVOKE_BROKER_TO_RESET_OFFSET: to an offset of one queue, or to a time in one queue or all queues."""
        header = request.header(ResetOffsetHeader)
        topic = self._check_alive(header.topic, header.group)
        deleted = self._store.deletions.topics.get(topic.name, 0)
        queue_ids = [header.queue_id] if header.queue_id >= 0 else range(topic.read_queues)
        if header.queue_id >= topic.read_queues:
            raise RemoteError(
                f"Queue {header.queue_id} does not exist in topic {topic.name}, it has {topic.read_queues}",
                code=ResponseCode.SYSTEM_ERROR,
            )
        if header.queue_id >= 0 and header.offset is not None and header.offset != _NONE:
            target = partial(self._checked_offset, topic, header.queue_id, header.offset)
            targets = {header.queue_id: (yield from self._cold_requests.read(request, target))}
        else:
            targets = {}
            for queue_id in queue_ids:
                target = partial(self._offset_at, topic.name, queue_id, header.timestamp)
                targets[queue_id] = yield from self._cold_requests.read(request, target)
                yield
        if not targets:
            raise RemoteError(
                f"topic {topic.name} has no queue to reset",
                code=ResponseCode.SYSTEM_ERROR,
                hint="give the topic read queues",
            )
        reset = ResetOffsets({})
        for queue_id, offset in targets.items():
            self._check_alive(topic.name, header.group)
            if self._store.deletions.topics.get(topic.name, 0) > deleted:  # these offsets would hide new messages
                raise RemoteError(
                    f"Topic {topic.name} was made anew meanwhile",
                    code=ResponseCode.SYSTEM_ERROR,
                    hint="reset the offsets again",
                )
            self._offsets.assign_reset(header.group, topic.name, queue_id, offset)
            self._hold.wake((topic.name, queue_id))
            reset.offsets[self._queue(topic.name, queue_id)] = offset
            yield
        return Reply(body=(yield from reset.encoding()))

    def clone(self, request: Request) -> ReplySteps:
        """CLONE_GROUP_OFFSET: one group goes on at the offsets of another."""
        header = request.header(CloneGroupOffsetHeader)
        names = [header.topic] if header.topic else self._offsets.topics_of(header.src_group)
        for name in names:
            if name in self._topics and (header.offline or self._is_consumed(header.src_group, name)):
                self._offsets.copy_group(header.src_group, header.dest_group, name)
            yield
        return Reply()

    def topics_of_consumer(self, request: Request) -> ReplySteps:
        """QUERY_TOPICS_BY_CONSUMER: topics in which the group has an offset."""
        topics = self._offsets.topics_of(request.header(TopicsOfConsumerHeader).group)
        yield
        return Reply(body=(yield from encoding(TopicList(topics=topics, broker_addr=self._identity().address))))

    def time_span(self, request: Request) -> ReplySteps:
        """QUERY_CONSUME_TIME_SPAN: the age of the group's messages, queue by queue."""
        header = request.header(ConsumeTimeSpanHeader)
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RemoteError(f"No topic in this broker. topic: {header.topic}", code=ResponseCode.TOPIC_NOT_EXIST)
        check_room((topic.read_queues, (self._span_of(topic.name, 0, (0, 0, 0), 0),)))
        spans = []
        for queue_id in range(topic.read_queues):
            span = partial(self._span, header.group, topic.name, queue_id)
            spans.append((yield from self._cold_requests.read(request, span)))
            yield
        return Reply(body=(yield from encoding(ConsumeTimeSpans(spans=spans))))

    def _check_alive(self, name: str, group: str) -> TopicConfig:
        """The topic; RemoteError if the topic or the group does not exist (any more)."""
        topic = self._topics.get(name)
        if topic is None:
            raise RemoteError(f"Topic {name} does not exist", code=ResponseCode.TOPIC_NOT_EXIST)
        if self._groups.find(group) is None:
            raise RemoteError(f"Group {group} does not exist", code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        return topic

    def _rows(self, request: Request, topic: TopicConfig, group: str) -> GroupRows:
        for queue_id in range(topic.read_queues):
            progress = partial(self._progress, group, topic.name, queue_id)
            yield self._queue(topic.name, queue_id), (yield from self._cold_requests.read(request, progress))

    def _rate(self, group: str, topic: TopicConfig) -> float:
        return self._stats.per_second(GROUP_GET_NUMS, f"{topic.name}@{group}")

    def _progress(self, group: str, name: str, queue_id: int) -> GroupOffsets:
        consumed = max(0, self._offsets.query(group, name, queue_id))
        popped = self._pops.of(group, name, queue_id)
        handed = max(consumed, popped.next_offset, popped.handed, self._offsets.query_pull(group, name, queue_id))
        return GroupOffsets(
            broker_offset=self._store.max_offset(name, queue_id),
            consumer_offset=consumed,
            # mqadmin shows as in flight what lies between the two offsets
            pull_offset=max(handed, consumed + popped.in_flight + popped.overdue),
            last_timestamp=max(0, self._stored_ms(name, queue_id, consumed - 1)),
            pop_offset=popped.next_offset if popped.next_offset > consumed else None,
            pop_in_flight=popped.in_flight or None,
            pop_overdue=popped.overdue or None,
        )

    def _span(self, group: str, name: str, queue_id: int) -> ConsumeTimeSpan:
        first_ms = self._store.earliest_store_ms(name, queue_id)
        end = self._store.max_offset(name, queue_id)
        last_ms = self._stored_ms(name, queue_id, end - 1)
        consumed = self._offsets.query(group, name, queue_id)
        consumed_ms = self._stored_ms(name, queue_id, consumed - 1) if consumed > 0 else first_ms
        waiting_ms = self._stored_ms(name, queue_id, consumed) if 0 <= consumed < end else 0
        delay_ms = self._clock.now_ms() - waiting_ms if waiting_ms > 0 else 0
        return self._span_of(name, queue_id, (first_ms, last_ms, consumed_ms), delay_ms)

    def _span_of(self, name: str, queue_id: int, times: tuple[int, int, int], delay_ms: int) -> ConsumeTimeSpan:
        first_ms, last_ms, consumed_ms = times
        return ConsumeTimeSpan(
            message_queue=QueueEntry.from_model(self._queue(name, queue_id)),
            min_time_stamp=first_ms,
            max_time_stamp=last_ms,
            consume_time_stamp=consumed_ms,
            delay_time=delay_ms,
            min_time_stamp_str=_time_text(first_ms),
            max_time_stamp_str=_time_text(last_ms),
            consume_time_stamp_str=_time_text(consumed_ms),
        )

    def _offset_at(self, name: str, queue_id: int, timestamp: int) -> int:
        if timestamp < 0:
            return self._store.max_offset(name, queue_id)
        return self._store.offset_by_time(name, queue_id, Millis(timestamp))

    def _checked_offset(self, topic: TopicConfig, queue_id: int, offset: int) -> int:
        first = max(0, self._store.min_offset(topic.name, queue_id))
        last = self._store.max_offset(topic.name, queue_id) + 1
        if not first <= offset <= last:
            raise RemoteError(
                f"Target offset {offset} not in consume queue range [{first}-{last}]", code=ResponseCode.SYSTEM_ERROR
            )
        return offset

    def _is_consumed(self, group: str, name: str) -> bool:
        """True for the topics that a connected group subscribes to now; for a group that is away, for every topic."""
        connected = self._consumers.find(group)
        return connected is None or not connected.subscriptions or name in connected.subscriptions

    def _stored_ms(self, name: str, queue_id: int, offset: int) -> int:
        return self._store.store_ms_at(name, queue_id, QueueOffset(offset)) if offset >= 0 else 0

    def _queue(self, name: str, queue_id: int) -> MessageQueue:
        return MessageQueue(name, self._identity().broker_name, queue_id)


def _time_text(ms: int) -> str:
    """RocketMQ's UtilAll.timeMillisToHumanString3 form, local time."""
    when = datetime.fromtimestamp(max(0, ms) / 1000)
    return when.strftime("%Y-%m-%d#%H:%M:%S:") + f"{max(0, ms) % 1000:03d}"
