"""The right to pop: whether a group may take messages of a topic, or acknowledge them.

Owns        the checks of pops and acknowledgements in RocketMQ's order.
Must not know   requests and askers, where the messages are, how the consumer waits.

Rules: RocketMQ's PopMessageProcessor and AckMessageProcessor. SQL92 works whatever enablePropertyFilter says, as there.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rocketlake.base.errors import UsageError
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.property_filter import record_test
from rocketlake.broker.rights.refusal import Refused
from rocketlake.broker.topics.table import TopicTable
from rocketlake.filter.tag import TagTest, tag_matcher
from rocketlake.model.group import GroupConfig
from rocketlake.model.subscription import TAG, Subscription, parse_subscription
from rocketlake.model.topic import Perm, TopicConfig
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["PopAsked", "PopRight", "PopRights", "check_pop", "topic_to_pop"]

_MESSAGES_MAX = 32
"""Most messages of one pop."""


class PopAsked(Protocol):
    """What the checks look at: the headers of a pop and of its like."""

    @property
    def consumer_group(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def queue_id(self) -> int: ...


class PopRight(NamedTuple):
    """What a pop was let in to, and the settings by which it was."""

    config: BrokerConfig
    group: GroupConfig
    topic: TopicConfig
    subscription: Subscription
    match: TagTest | None
    """The tag test; None if every message will do, or if the filter is none of tags."""


class PopRights:
    """Lets pops in."""

    def __init__(self, config: LiveConfig, topics: TopicTable, groups: GroupTable, *, timer_enabled: bool) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._timer_enabled = timer_enabled

    def admit(self, asked: PopAsked, messages: int, expression: str | None, expression_type: str | None) -> PopRight:
        """Let a pop in, or raise Refused."""
        config = self._config.now
        check_pop(config, messages)
        if not self._timer_enabled:
            raise Refused(
                f"the broker[{config.broker_name}] pop message is forbidden because timerWheelEnable is false",
                code=ResponseCode.SYSTEM_ERROR,
                hint="set timerWheelEnable=true at the broker",
            )
        topic, group = self.readable(asked)
        subscription, match = _filter(topic.name, expression, expression_type)
        return PopRight(config, group, topic, subscription, match)

    def is_in_force(self, right: PopRight) -> bool:
        """True while every setting is the one the pop was let in by. A setting that changes is replaced as a whole."""
        return (
            self._config.now is right.config
            and self._groups.find(right.group.name) is right.group
            and self._topics.get(right.topic.name) is right.topic
        )

    def readable(self, asked: PopAsked) -> tuple[TopicConfig, GroupConfig]:
        """The topic and the group, if the group may read the queue; or Refused."""
        topic = topic_to_pop(self._topics, asked.topic)
        if asked.queue_id >= topic.read_queues:
            raise Refused(
                f"queueId[{asked.queue_id}] is illegal, topic:[{topic.name}] topicConfig.readQueueNums:"
                f"[{topic.read_queues}]",
                code=ResponseCode.INVALID_PARAMETER,
            )
        group = self._groups.find_or_create(asked.consumer_group)
        if group is None:
            raise Refused(
                f"subscription group [{asked.consumer_group}] does not exist",
                code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            )
        if not group.consume_enable:
            raise Refused(f"subscription group no permission, {group.name}", code=ResponseCode.NO_PERMISSION)
        return topic, group

    def acknowledged(self, name: str, queue_id: int) -> TopicConfig:
        """The topic of a message that is acknowledged; or Refused."""
        topic = _existing(self._topics, name)
        if not 0 <= queue_id < topic.read_queues:
            raise Refused(
                f"queueId[{queue_id}] is illegal, topic:[{topic.name}] topicConfig.readQueueNums:[{topic.read_queues}]",
                code=ResponseCode.MESSAGE_ILLEGAL,
            )
        return topic


def check_pop(config: BrokerConfig, messages: int) -> None:
    """Refused, if nobody may read from the broker, or for more messages than a pop may ask for."""
    if not Perm.is_readable(config.permission):
        raise Refused(f"the broker[{config.broker_name}] pop message is forbidden", code=ResponseCode.NO_PERMISSION)
    if messages > _MESSAGES_MAX:
        raise Refused(
            f"the broker[{config.broker_name}] pop message's num is greater than {_MESSAGES_MAX}",
            code=ResponseCode.INVALID_PARAMETER,
        )


def topic_to_pop(topics: TopicTable, name: str) -> TopicConfig:
    """A topic that is there and may be read; or Refused."""
    topic = _existing(topics, name)
    if not topic.is_readable:
        raise Refused(f"the topic[{name}] peeking message is forbidden", code=ResponseCode.NO_PERMISSION)
    return topic


def _existing(topics: TopicTable, name: str) -> TopicConfig:
    topic = topics.get(name)
    if topic is None:
        raise Refused(f"topic[{name}] not exist, apply first please!", code=ResponseCode.TOPIC_NOT_EXIST)
    return topic


def _filter(topic: str, expression: str | None, expression_type: str | None) -> tuple[Subscription, TagTest | None]:
    try:
        subscription = parse_subscription(topic, expression, (expression and expression_type) or TAG)
        if subscription.is_tag_type:
            return subscription, tag_matcher(subscription)
        record_test(subscription.expression)
    except UsageError as error:
        raise Refused(
            f"parse the consumer's subscription failed: {error.what}", code=ResponseCode.SUBSCRIPTION_PARSE_FAILED
        ) from None
    return subscription, None
