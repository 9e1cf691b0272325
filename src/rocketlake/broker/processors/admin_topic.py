"""Topics, as administrators make, change, delete and read them.

Owns        the checks of a topic's settings, the answers.
Must not know   how topics are saved and registered.

A change is answered when it is on disk, here and on slaves that copy it, and was offered to the name servers: a client
then finds the topic at once.
Source: docs/internals/admin.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from rocketlake.auth.action import Action, on_topic
from rocketlake.base.callbacks import Wait
from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.cluster.outbound import Identity
from rocketlake.broker.cluster.registration import Registration
from rocketlake.broker.cold_requests import ColdRequests
from rocketlake.broker.counters import TOPIC_PUT_NUMS
from rocketlake.broker.long_polling.pull_hold import PullHold
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.producer_sequences.table import ProducerSequences
from rocketlake.broker.replicas.kept import Kept
from rocketlake.broker.stats import BrokerStats
from rocketlake.broker.topics.attributes import apply_changes
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import check_topic
from rocketlake.model.quota import quota_of
from rocketlake.model.topic import Perm, TopicConfig, TopicFilterType
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.bodies.long_text import encoding
from rocketlake.protocol.bodies.stats import GroupList, TopicList, TopicOffsets, TopicStats
from rocketlake.protocol.bodies.topic import TopicConfigList, TopicEntry
from rocketlake.protocol.bodies.topic import TopicTable as TopicTableBody
from rocketlake.protocol.headers.admin_topic import (
    AllTopicsHeader,
    AllTopicsReplyHeader,
    CreateTopicHeader,
    DeleteTopicHeader,
    GetTopicConfigHeader,
    TopicConsumersHeader,
    TopicStatsHeader,
)
from rocketlake.protocol.request_code import request_name
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore

__all__ = ["AdminTopic"]

_QUEUES_MAX = 65_536
_ATTRIBUTES_CHARS_MAX = 16 * 1024
_PAGE_MAX = 2000
"""splitMetadataSize: most topics in one page of GET_ALL_TOPIC_CONFIG."""


class AdminTopic:
    """Create, delete, list and look up topics, the ends of their queues, their groups."""

    def __init__(
        self,
        *,
        topics: TopicTable,
        offsets: OffsetTable,
        sequences: ProducerSequences,
        consumers: ConsumerTable,
        store: MessageStore,
        cold_requests: ColdRequests,
        hold: PullHold,
        stats: BrokerStats,
        kept: Kept,
        registration: Registration,
        identity: Callable[[], Identity],
        gate: AccessGate,
    ) -> None:
        """`gate`: asked when permissions or queues are taken from a topic."""
        self._topics = topics
        self._offsets = offsets
        self._sequences = sequences
        self._consumers = consumers
        self._store = store
        self._cold_requests = cold_requests
        self._hold = hold
        self._stats = stats
        self._kept = kept
        self._registration = registration
        self._identity = identity
        self._gate = gate

    def create(self, request: Request) -> Reply | Held:
        """UPDATE_AND_CREATE_TOPIC."""
        header = request.header(CreateTopicHeader)
        if header.topic_filter_type not in TopicFilterType.__members__:
            raise _invalid(
                f"topicFilterType {header.topic_filter_type!r} is not known",
                "use " + " or ".join(TopicFilterType.__members__),
            )
        known = self._topics.get(header.topic)
        topic = TopicConfig(
            header.topic,
            read_queues=header.read_queue_nums,
            write_queues=header.write_queue_nums,
            perm=header.perm,
            filter_type=TopicFilterType(header.topic_filter_type),
            sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=_changed_attributes(known, header.attributes),
        )
        self._check(topic)
        if topic == known:
            return Reply()
        self._check_losses(request, topic)
        self._topics.check_room(topic)
        self._topics.put(topic)
        return self._answer_when_known(request)

    def create_list(self, request: Request) -> ReplySteps:
        """UPDATE_AND_CREATE_TOPIC_LIST: all of them, or none if one is refused."""
        topics = []
        entries = yield from TopicConfigList.decoding(request.body)
        entries.reverse()
        while entries:  # their memory is freed in steps, too
            topics.append(entries.pop().to_model())
            self._check(topics[-1])
            self._check_losses(request, topics[-1])
            yield
        changed = []
        added = more = 0
        for topic in topics:
            if topic != self._topics.get(topic.name):
                changed.append(topic)
                growth = self._topics.growth(topic)
                added, more = added + growth[0], more + growth[1]
            yield
        self._topics.check_growth(added, more)
        for topic in changed:
            self._topics.put(topic)
            yield
        return self._answer_when_known(request) if changed else Reply()

    def delete(self, request: Request) -> ReplySteps:
        """DELETE_TOPIC_IN_BROKER: the topic, its queues, the offsets of its groups, its producer sequences.

        The store deletes first: if it refuses, nothing has changed. The tables forget the topic in the same step of the
        loop, so that a topic made anew starts without offsets and sequences. Consumers that run through it start at the
        first message.
        """
        name = request.header(DeleteTopicHeader).topic
        if not name.strip():
            raise _invalid("The specified topic is blank.")
        self._refuse_system(name)
        outcome: list[Exception | None] = []
        is_forgotten = False

        def noted(error: Exception | None) -> None:
            outcome.append(error)
            if is_forgotten:
                self._answer_deletion(request, name, error)

        self._store.delete_topics([name], noted)
        self._topics.delete(name)
        self._sequences.forget_topic(name)
        offsets = self._offsets.remove_topic(name, lambda group: self._consumers.find(group) is not None)
        self._hold.wake_topic(name)
        yield from offsets
        yield from self._stats.forget_topic(name)
        is_forgotten = True
        if outcome:
            self._answer_deletion(request, name, outcome[0])
        return HELD

    def get(self, request: Request) -> Reply:
        """GET_TOPIC_CONFIG."""
        return Reply(body=TopicEntry.from_model(self._find(request.header(GetTopicConfigHeader).topic)).encode())

    def all(self, request: Request) -> ReplySteps:
        """GET_ALL_TOPIC_CONFIG, in pages for peers that ask for them."""
        header = request.header(AllTopicsHeader)
        topics = list(self._topics.all())
        total = len(topics)
        if header.topic_seq is not None:
            first = max(0, header.topic_seq)
            topics = topics[first : first + min(header.max_topic_num or _PAGE_MAX, _PAGE_MAX)]
        body = TopicTableBody.from_model(self._topics.data_version, [])
        for topic in topics:
            body.topics[topic.name] = TopicEntry.from_model(topic)
            yield
        return Reply(header=AllTopicsReplyHeader(total_topic_num=total), body=(yield from encoding(body)))

    def stats(self, request: Request) -> ReplySteps:
        """GET_TOPIC_STATS_INFO: the first and the next offset of each queue."""
        topic = self._find(request.header(TopicStatsHeader).topic)
        put_tps = self._stats.per_second(TOPIC_PUT_NUMS, topic.name)
        return Reply(body=(yield from TopicStats.encoding(self._rows(request, topic), put_tps)))

    def consumers(self, request: Request) -> ReplySteps:
        """QUERY_TOPIC_CONSUME_BY_WHO: groups that are connected, and those that once committed an offset."""
        name = request.header(TopicConsumersHeader).topic
        connected = self._consumers.groups_of_topic(name)
        yield
        groups = connected | self._offsets.groups_of(name)
        yield
        return Reply(body=(yield from encoding(GroupList(groups=sorted(groups)))))

    def system_topics(self, _request: Request) -> ReplySteps:
        """GET_SYSTEM_TOPIC_LIST_FROM_BROKER."""
        names = []
        for topic in self._topics.all():
            if self._topics.is_system(topic.name):
                names.append(topic.name)
            yield
        return Reply(body=TopicList(topics=names, broker_addr=self._identity().address).encode())

    def _answer_deletion(self, request: Request, name: str, error: Exception | None) -> None:
        if error is None:
            self._answer_when_known(request)
        else:
            remark = f"topic {name} is deleted, but a crash may bring its messages back: {error}. Cure: delete it again"
            request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=remark))

    def _rows(self, request: Request, topic: TopicConfig) -> Iterator[tuple[MessageQueue, TopicOffsets] | Wait]:
        broker_name = self._identity().broker_name
        for queue_id in range(topic.queues):
            ends = yield from self._cold_requests.read(request, partial(self._ends, topic.name, queue_id))
            yield MessageQueue(topic.name, broker_name, queue_id), ends

    def _ends(self, name: str, queue_id: int) -> TopicOffsets:
        end = self._store.max_offset(name, queue_id)
        last_ms = self._store.store_ms_at(name, queue_id, end - 1) if end > 0 else 0
        return TopicOffsets(
            min_offset=max(0, self._store.min_offset(name, queue_id)),
            max_offset=end,
            last_update_timestamp=max(0, last_ms),
        )

    def _find(self, name: str) -> TopicConfig:
        topic = self._topics.get(name)
        if topic is None:
            raise RemoteError(f"No topic in this broker. topic: {name}", code=ResponseCode.TOPIC_NOT_EXIST)
        return topic

    def _check(self, topic: TopicConfig) -> None:
        try:
            check_topic(topic.name)
        except UsageError as error:
            raise _invalid(str(error)) from None
        self._refuse_system(topic.name)
        if not Perm.is_valid(topic.perm):
            raise _invalid(
                f"perm {topic.perm} of topic {topic.name} is not 0 to 7", "give 6 to read and write, 4, 2 or 0"
            )
        size = sum(len(name) + len(value) for name, value in topic.attributes.items())
        if size > _ATTRIBUTES_CHARS_MAX:
            raise _invalid(
                f"topic {topic.name} has attributes of {size} characters, at most {_ATTRIBUTES_CHARS_MAX} are taken",
                "remove attributes, or shorten their values",
            )
        for count in (topic.read_queues, topic.write_queues):
            if not 0 <= count <= _QUEUES_MAX:
                raise _invalid(
                    f"topic {topic.name} with {count} queues, allowed: 0 to {_QUEUES_MAX}",
                    f"give at most {_QUEUES_MAX} queues, or spread them over more brokers",
                )

    def _check_losses(self, request: Request, topic: TopicConfig) -> None:
        """Taking permissions or queues needs the right to delete the topic; a new quota that to change the cluster."""
        known = self._topics.get(topic.name)
        if known is not None and quota_of(known.attributes) != quota_of(topic.attributes):
            self._gate.check_admin(request, f"{request_name(request.code)} that changes the quota of {topic.name}")
        if known is not None and (
            known.perm & ~topic.perm or topic.read_queues < known.read_queues or topic.write_queues < known.write_queues
        ):
            what = f"{request_name(request.code)} that takes permissions or queues from topic {topic.name}"
            self._gate.check_admin(request, what, on_topic(topic.name, Action.UPDATE))

    def _refuse_system(self, name: str) -> None:
        if self._topics.is_system(name):
            raise _invalid(f"The topic[{name}] is conflict with system topic.")

    def _answer_when_known(self, request: Request) -> Held:
        def kept(problem: str) -> None:
            reply = Reply(ResponseCode.SYSTEM_ERROR, remark=problem) if problem else Reply()
            self._registration.when_registered(lambda: request.answer(reply))

        self._kept.when_kept(kept)
        return HELD


def _changed_attributes(known: TopicConfig | None, text: str | None) -> dict[str, str]:
    try:
        return apply_changes(None if known is None else known.attributes, text)
    except UsageError as error:
        raise _invalid(str(error)) from None


def _invalid(what: str, hint: str = "") -> RemoteError:
    return RemoteError(what, code=ResponseCode.INVALID_PARAMETER, hint=hint)
