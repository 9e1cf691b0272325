"""The right to read: whether a group may read a queue of a topic by this filter.

Owns        the checks of a read in RocketMQ's order (the first one that fails is what the consumer sees), the admission
            they end in, and whether an admission is still in force.
Must not know   requests and askers, where the messages are, how the consumer waits.

Rules: RocketMQ's PullMessageProcessor. The remarks are Apache's words: Java clients and tests compare them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rocketlake.base.errors import UsageError
from rocketlake.broker.clients.consumers import BROADCASTING, ConsumerGroup, ConsumerTable
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.groups.table import READ_FORBIDDEN, GroupTable
from rocketlake.broker.property_filter import record_test, unserved
from rocketlake.broker.rights.refusal import Refused
from rocketlake.broker.topics.table import TopicTable
from rocketlake.filter.tag import TagTest, tag_matcher
from rocketlake.model.group import GroupConfig
from rocketlake.model.subscription import TAG, Subscription, parse_subscription
from rocketlake.model.topic import DELAY_TOPIC, HALF_TOPIC, OP_TOPIC, Perm, TopicConfig
from rocketlake.protocol.headers.pull import PULL_SUBSCRIPTION
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["INNER_TOPICS", "Admission", "ReadAsked", "ReadRights"]

INNER_TOPICS = frozenset({HALF_TOPIC, OP_TOPIC, DELAY_TOPIC})
"""Topics of messages that are not sent yet: this broker reads them, and peers whom the setting adminAccess lets in."""

# Values of forbiddenType in the answer.
_BY_BROKER, _BY_GROUP, _BY_TOPIC, _BY_BROADCASTING, _BY_SUBSCRIPTION = "1", "2", "3", "4", "5"


class ReadAsked(Protocol):
    """What the checks look at. The header of a pull has it, and so has a pull that a kernel cut from a chunk."""

    @property
    def consumer_group(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def sys_flag(self) -> int: ...
    @property
    def sub_version(self) -> int: ...
    @property
    def subscription(self) -> str | None: ...
    @property
    def expression_type(self) -> str | None: ...


class Admission(NamedTuple):
    """The settings by which a read was let in, and the messages it gets."""

    config: BrokerConfig
    group: GroupConfig
    topic: TopicConfig
    members: ConsumerGroup | None
    """None if the subscription came with the request."""
    message_model: str
    subscription: Subscription
    match: TagTest | None
    """The tag test; None if every message will do, or if the filter is none of tags."""


class ReadRights:
    """Lets reads in."""

    def __init__(self, config: LiveConfig, topics: TopicTable, groups: GroupTable, consumers: ConsumerTable) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._consumers = consumers

    def admit(self, code: int, asked: ReadAsked) -> Admission:
        """Let the read in, or raise RemoteError (Refused, where Apache has a check of its own).

        An admission is as good for every read of the same group, topic and filter. Who asks was seen by the gate; a
        topic of INNER_TOPICS is for administrators, whom the gate tells, too (processors/pull.py).
        """
        config = self._config.now
        group = self._check_group(config, code, asked)
        topic = self._check_topic(asked)
        members = None if asked.sys_flag & PULL_SUBSCRIPTION else self._check_members(asked, group)
        subscription = _parse_expression(asked) if members is None else _subscription_of(members, asked, group)
        if subscription.is_tag_type:
            match = tag_matcher(subscription)
        else:
            match = None
            _check_filter(subscription, in_request=members is None, enabled=config.property_filter_enabled)
        model = "" if members is None else members.message_model
        return Admission(config, group, topic, members, model, subscription, match)

    def is_in_force(self, admission: Admission) -> bool:
        """True while every setting is the one the read was let in by. A setting that changes is replaced as a whole."""
        group, topic, members = admission.group, admission.topic.name, admission.members
        return (
            self._config.now is admission.config
            and self._groups.find(group.name) is group
            and self._topics.get(topic) is admission.topic
            and (
                members is None
                or (
                    self._consumers.find(group.name) is members
                    and members.subscriptions.get(topic) is admission.subscription
                    and members.message_model == admission.message_model
                    and not self._groups.forbidden(group.name, topic) & READ_FORBIDDEN
                )
            )
        )

    def _check_group(self, config: BrokerConfig, code: int, asked: ReadAsked) -> GroupConfig:
        if not Perm.is_readable(config.permission):
            raise _no_permission("the broker pulling message is forbidden", _BY_BROKER)
        if code == RequestCode.LITE_PULL_MESSAGE and not config.lite_pull_enabled:
            raise _no_permission("the broker for lite pull message is forbidden", _BY_BROKER)
        group = self._groups.find_or_create(asked.consumer_group)
        if group is None:
            raise Refused(
                f"subscription group [{asked.consumer_group}] does not exist",
                code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            )
        if not group.consume_enable:
            raise _no_permission(f"subscription group no permission, {group.name}", _BY_GROUP)
        return group

    def _check_topic(self, asked: ReadAsked) -> TopicConfig:
        topic = self._topics.get(asked.topic)
        if topic is None:
            raise Refused(f"topic[{asked.topic}] not exist, apply first please!", code=ResponseCode.TOPIC_NOT_EXIST)
        if not topic.is_readable:
            raise _no_permission(f"the topic[{topic.name}] pulling message is forbidden", _BY_TOPIC)
        if not 0 <= asked.queue_id < topic.read_queues:
            raise Refused(
                f"queueId[{asked.queue_id}] is illegal, topic:[{topic.name}] read queues:[{topic.read_queues}]",
                code=ResponseCode.INVALID_PARAMETER,
            )
        return topic

    def _check_members(self, asked: ReadAsked, group: GroupConfig) -> ConsumerGroup:
        members = self._consumers.find(group.name)
        if members is None:
            raise Refused(
                f"the consumer's group info not exist, {group.name}", code=ResponseCode.SUBSCRIPTION_NOT_EXIST
            )
        if members.message_model == BROADCASTING and not group.consume_broadcast_enable:
            raise _no_permission(f"the consumer group[{group.name}] can not consume by broadcast way", _BY_BROADCASTING)
        if self._groups.forbidden(group.name, asked.topic) & READ_FORBIDDEN:
            raise _no_permission(
                f"the consumer group[{group.name}] is forbidden for topic[{asked.topic}]", _BY_SUBSCRIPTION
            )
        return members


def _no_permission(what: str, forbidden_type: str) -> Refused:
    return Refused(what, code=ResponseCode.NO_PERMISSION, forbidden_type=forbidden_type)


def _subscription_of(members: ConsumerGroup, asked: ReadAsked, group: GroupConfig) -> Subscription:
    subscription = members.subscriptions.get(asked.topic)
    if subscription is None:
        raise Refused(
            f"the consumer's subscription not exist, group: {group.name}, topic: {asked.topic}",
            code=ResponseCode.SUBSCRIPTION_NOT_EXIST,
        )
    if subscription.version < asked.sub_version:
        raise Refused("the consumer's subscription not latest", code=ResponseCode.SUBSCRIPTION_NOT_LATEST)
    return subscription


def _parse_expression(asked: ReadAsked) -> Subscription:
    try:
        return parse_subscription(asked.topic, asked.subscription, asked.expression_type or TAG)
    except UsageError as error:
        raise Refused(
            f"parse the consumer's subscription failed: {error.what}", code=ResponseCode.SUBSCRIPTION_PARSE_FAILED
        ) from None


def _check_filter(subscription: Subscription, *, in_request: bool, enabled: bool) -> None:
    reason = unserved(subscription, enabled=enabled)
    if reason:
        raise Refused(reason, code=ResponseCode.SYSTEM_ERROR)
    try:
        record_test(subscription.expression)
    except UsageError as error:
        code, why = ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"
        if not in_request:
            code, why = ResponseCode.FILTER_DATA_NOT_EXIST, "the broker's consumer filter data is not exist"
        raise Refused(f"{why}: {error}", code=code) from None
