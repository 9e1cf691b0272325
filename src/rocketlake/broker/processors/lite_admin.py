"""Lite topics, their subscribers and groups, as administrators read them (requests 200074 to 200079).

Owns        the checks of these requests, their answers, how much an answer holds.
Must not know   how light queues and subscriptions are kept.

Departures from RocketMQ: docs/internals/limits.md, "Lite topics". Words of refusals are RocketMQ's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from heapq import nlargest
from itertools import chain, islice
from operator import attrgetter

from rocketlake.base.callbacks import Step
from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError
from rocketlake.broker.cold_requests import ColdRequests
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.lite.light_queues import LightQueues
from rocketlake.broker.lite.light_reads import LightReads
from rocketlake.broker.lite.progress import LiteProgress
from rocketlake.broker.lite.subscriptions import EVERYTHING, Subscriber, Subscriptions
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.lite import LITE_BIND, LITE_QUEUE, is_lite_topic, light_queue, lite_minutes, split_light_queue
from rocketlake.model.topic import TopicConfig
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.lite_info import (
    BrokerLiteInfo,
    LiteClient,
    LiteClientInfo,
    LiteGroupInfo,
    LiteLag,
    LiteTopicInfo,
    ParentTopicInfo,
)
from rocketlake.protocol.bodies.stats import GroupOffsets, TopicOffsets
from rocketlake.protocol.headers.lite import (
    LiteClientInfoHeader,
    LiteDispatchHeader,
    LiteGroupInfoHeader,
    LiteTopicInfoHeader,
    ParentTopicInfoHeader,
)
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore

__all__ = ["LiteAdmin"]

_NAMES_MAX = 10_000
"""Of one answer."""
_TIMES_MAX = 100
"""Lite topics of one answer whose next message is looked up."""
_NOTHING = -1


class LiteAdmin:
    """Answers administrators."""

    def __init__(
        self,
        *,
        lite_topics_max: Callable[[], int],
        store: MessageStore,
        cold_requests: ColdRequests,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        queues: LightQueues,
        reads: LightReads,
        progress: LiteProgress,
        subscriptions: Subscriptions,
        look: Callable[[Subscriber], object],
        clock: Clock,
    ) -> None:
        """`look`: has a subscriber read what there is of all its lite topics."""
        self._lite_topics_max = lite_topics_max
        self._store = store
        self._cold_requests = cold_requests
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._queues = queues
        self._reads = reads
        self._progress = progress
        self._subscriptions = subscriptions
        self._look = look
        self._clock = clock

    def broker(self, _request: Request) -> Reply:
        """GET_BROKER_LITE_INFO: how large the tables of lite topics are."""
        answer = BrokerLiteInfo(
            max_lmq_num=self._lite_topics_max(),
            current_lmq_num=len(self._queues),
            lite_subscription_count=self._subscriptions.count,
            order_info_count=sum(1 for _ in self._progress.orders),
            cq_table_size=len(self._store.queues.topics()),
            offset_table_size=self._offsets.count,
            event_map_size=sum(1 for subscriber in self._subscriptions if subscriber.ready),
            topic_meta={topic.name: lite_minutes(topic) for topic in self._topics.all() if is_lite_topic(topic)},
            group_meta=self._bound_groups(),
        )
        return Reply(body=answer.encode())

    def parent(self, request: Request) -> Reply:
        """GET_PARENT_TOPIC_INFO."""
        topic = self._parent(request.header(ParentTopicInfoHeader).topic)
        answer = ParentTopicInfo(
            topic=topic.name,
            ttl=lite_minutes(topic),
            groups=self._bound_groups().get(topic.name),
            lmq_num=len(self._queues),
            lite_topic_count=self._queues.count(topic.name),
        )
        return Reply(body=answer.encode())

    def topic(self, request: Request) -> Reply:
        """GET_LITE_TOPIC_INFO: its ends, and who subscribes to it."""
        header = request.header(LiteTopicInfoHeader)
        parent, lite = self._parent(header.parent_topic).name, header.lite_topic
        self._queues.check_ready()
        newest = self._queues.newest(parent, lite)
        subscribers = chain(*[self._subscriptions.of_lite(parent, name) for name in (lite, EVERYTHING)])
        named = [LiteClient(client_id=each.client_id, group=each.group) for each in islice(subscribers, _NAMES_MAX)]
        answer = LiteTopicInfo(
            parent_topic=parent,
            lite_topic=lite,
            subscriber=named,
            sharding_to_broker=newest is not None,
        )
        if newest is not None:
            answer.topic_offset = TopicOffsets(
                min_offset=newest.first, max_offset=newest.end, last_update_timestamp=newest.stored_s * 1000
            )
        return Reply(body=answer.encode())

    def client(self, request: Request) -> Reply:
        """GET_LITE_CLIENT_INFO: what a client subscribes to."""
        header = request.header(LiteClientInfoHeader)
        parent, group = self._parent(header.parent_topic).name, header.group
        if self._bound_topic(group) != parent:
            raise RemoteError(f"Subscription [{group}]-[{parent}] not match.", code=ResponseCode.INVALID_PARAMETER)
        answer = LiteClientInfo(parent_topic=parent, group=group, client_id=header.client_id)
        subscriber = self._subscriptions.get(header.client_id, group)
        if subscriber is not None and subscriber.parent == parent:
            most = max(0, min(header.max_count, _NAMES_MAX))
            silent_ms = round(1000 * (self._clock.monotonic() - subscriber.seen))
            answer.last_access_time = self._clock.now_ms() - silent_ms
            answer.lite_topic_count = len(subscriber.lites)
            answer.lite_topic_set = [light_queue(parent, lite) for lite in sorted(subscriber.lites)[:most]]
        return Reply(body=answer.encode())

    def group(self, request: Request) -> ReplySteps:
        """GET_LITE_GROUP_INFO: how far a group is behind, in one lite topic or in those where it is behind most."""
        header = request.header(LiteGroupInfoHeader)
        parent, lite = self._bound_topic(header.group), header.lite_topic
        self._queues.check_ready()
        answer = LiteGroupInfo(group=header.group, parent_topic=parent, lite_topic=lite or None)
        if not lite:
            yield from self._most_behind(request, answer, max(0, min(header.top_k, _NAMES_MAX)))
        elif self._queues.newest(parent, lite) is None:
            answer.total_lag_count = _NOTHING
        elif self._number(header.group, parent, lite) >= 0:
            next_ms, last_ms = yield from self._times(request, header.group, parent, lite)
            newest = self._queues.newest(parent, lite)
            end = newest.end if newest is not None else 0
            answer.total_lag_count = self._lag(header.group, parent, lite)
            answer.earliest_unconsumed_timestamp = next_ms or _NOTHING
            answer.lite_topic_offset_wrapper = GroupOffsets(
                broker_offset=end, consumer_offset=end - answer.total_lag_count, last_timestamp=last_ms
            )
        return Reply(body=answer.encode())

    def _most_behind(self, request: Request, answer: LiteGroupInfo, most: int) -> Generator[Step, None, None]:
        group, parent = answer.group, answer.parent_topic
        lags = []
        for topic in self._offsets.topics_of(group):
            bound, lite = split_light_queue(topic) or ("", "")
            if bound == parent and (lag := self._lag(group, parent, lite)) > 0:
                lags.append(LiteLag(lite_topic=lite, lag_count=lag))
            yield
        answer.total_lag_count = sum(each.lag_count for each in lags)
        answer.lag_count_top_k = nlargest(most, lags, key=attrgetter("lag_count"))
        answer.lag_timestamp_top_k = []
        for each in answer.lag_count_top_k[:_TIMES_MAX]:
            times = yield from self._times(request, group, parent, each.lite_topic)
            each.earliest_unconsumed_timestamp = times[0] or _NOTHING
            yield

    def dispatch(self, request: Request) -> ReplySteps:
        """TRIGGER_LITE_DISPATCH: have clients look anew at all that they subscribe to."""
        header = request.header(LiteDispatchHeader)
        self._bound_topic(header.group)
        for subscriber in self._subscriptions:
            if subscriber.group == header.group and header.client_id in ("", subscriber.client_id):
                self._look(subscriber)
            yield
        return Reply()

    def _parent(self, name: str) -> TopicConfig:
        topic = self._topics.get(name)
        if topic is None:
            raise RemoteError(f"Topic [{name}] not exist.", code=ResponseCode.TOPIC_NOT_EXIST)
        if not is_lite_topic(topic):
            raise RemoteError(f"Topic [{name}] type not match.", code=ResponseCode.INVALID_PARAMETER)
        return topic

    def _bound_topic(self, group: str) -> str:
        found = self._groups.find(group)
        if found is None:
            raise RemoteError(f"Group [{group}] not exist.", code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        parent = found.attributes.get(LITE_BIND, "")
        if not parent:
            raise RemoteError(f"Group [{group}] is not a LITE group.", code=ResponseCode.INVALID_PARAMETER)
        return parent

    def _bound_groups(self) -> dict[str, list[str]]:
        bound: dict[str, list[str]] = {}
        for name, group in self._groups.all().items():
            if parent := group.attributes.get(LITE_BIND):
                bound.setdefault(parent, []).append(name)
        return bound

    def _lag(self, group: str, parent: str, lite: str) -> int:
        """Messages that the group has not acknowledged, at least; 0 for a group that is new to the lite topic."""
        newest, number = self._queues.newest(parent, lite), self._number(group, parent, lite)
        return max(0, newest.end - max(number, newest.first)) if newest is not None and number >= 0 else 0

    def _number(self, group: str, parent: str, lite: str) -> int:
        """What the group reads next; -1 if it is new to the lite topic."""
        return self._offsets.query(group, light_queue(parent, lite), LITE_QUEUE)

    def _times(self, request: Request, group: str, parent: str, lite: str) -> Generator[Step, None, tuple[int, int]]:
        """When its next message and the one before were stored, ms; 0: not known."""
        look = partial(self._reads.store_times, group, parent, lite, self._number(group, parent, lite))
        return (yield from self._cold_requests.read(request, look))
