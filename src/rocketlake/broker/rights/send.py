"""The right to write: whether this broker takes a message for a topic.

Owns        the checks of a send in RocketMQ's order (the first one that fails is what the producer sees), when a
            message has been tried too often, which topics take plain sends.
Must not know   requests and askers, the message, how a topic is made, where the message goes.

Rules: RocketMQ's AbstractSendMessageProcessor. The remarks are Apache's words: Java clients and tests compare them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.errors import UsageError
from rocketlake.broker.clients.queue_locks import QueueLocks
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.rights.refusal import Refused
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.group import GroupConfig
from rocketlake.model.names import check_topic, group_of_retry_topic, is_retry_topic, is_sendable_topic
from rocketlake.model.topic import Perm, TopicConfig
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.protocol.versions import MAX_RECONSUME_SINCE

__all__ = ["RetryAsked", "SendRights"]


class RetryAsked(Protocol):
    """What the check of a retry looks at; the header of a send has it."""

    @property
    def topic(self) -> str: ...
    @property
    def reconsume_times(self) -> int | None: ...
    @property
    def max_reconsume_times(self) -> int | None: ...


class SendRights:
    """Lets sends in."""

    def __init__(
        self, config: LiveConfig, topics: TopicTable, groups: GroupTable, queue_locks: QueueLocks, clock: Clock
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._queue_locks = queue_locks
        self._clock = clock

    @property
    def is_early(self) -> bool:
        """True until the time at which this broker starts to take messages."""
        return self._clock.now_ms() < self._config.now.start_accept_send_ms

    def check(self, topic: str) -> None:
        """Raises Refused if this broker takes no message for a topic of this name, known or not."""
        config = self._config.now
        if config.start_accept_send_ms and self.is_early:
            raise Refused(
                f"broker unable to service, until {config.start_accept_send_ms}", code=ResponseCode.SYSTEM_ERROR
            )
        if not Perm.is_writeable(config.permission) and self._topics.is_ordered(topic):
            raise Refused(
                f"the broker[{config.broker_name}] sending message is forbidden",
                code=ResponseCode.NO_PERMISSION,
                hint="set brokerPermission to 6 or 2, which hold the write bit",
            )
        _check_name(topic)

    def check_transactions(self) -> None:
        """Raises Refused if this broker takes no half messages."""
        config = self._config.now
        if config.reject_transactions:
            raise Refused(
                f"the broker[{config.broker_name}] sending transaction message is forbidden",
                code=ResponseCode.NO_PERMISSION,
                hint="set rejectTransactionMessage=false at the broker",
            )

    def check_back(self, retry_topic: TopicConfig | None = None) -> None:
        """Raises Refused if this broker, or the retry topic, takes no message that a consumer hands back."""
        if not Perm.is_writeable(self._config.now.permission):
            raise Refused("the broker sending message is forbidden", code=ResponseCode.NO_PERMISSION)
        if retry_topic is not None and not retry_topic.is_writeable:
            raise Refused(
                f"the topic[{retry_topic.name}] sending message is forbidden", code=ResponseCode.NO_PERMISSION
            )

    def find_group(self, name: str) -> GroupConfig:
        """The group that brings a message back. Raises Refused if there is none and it may not be made."""
        group = self._groups.find_or_create(name)
        if group is None:
            raise Refused(
                f"subscription group not exist, {name}",
                code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                hint="create the group, or set autoCreateSubscriptionGroup=true",
            )
        return group

    @staticmethod
    def retries_max(group: GroupConfig, asked: int | None, version: int) -> int:
        """How often a message of the group is tried again. Newer clients (`version`) may ask for another number."""
        return asked if asked is not None and version >= MAX_RECONSUME_SINCE else group.retry_max_times

    def is_spent(self, asked: RetryAsked, version: int) -> bool:
        """True if this send to a retry topic is one retry too many, or its group is an ordered one: a dead letter."""
        name = group_of_retry_topic(asked.topic)
        retries_max = self.retries_max(self.find_group(name), asked.max_reconsume_times, version)
        return (asked.reconsume_times or 0) > retries_max or self._queue_locks.any_held(name)

    def plain_topic(self, name: str) -> TopicConfig | None:
        """The topic, if a send to it passes every check of a topic, now and until topics change; None if it may not."""
        topic = self._topics.get(name)
        if topic is None or is_retry_topic(name) or topic.cleanup_policy == "COMPACTION":
            return None
        try:
            _check_name(name)
        except Refused:
            return None
        return None if name in self._topics.unsaved else topic


@lru_cache(maxsize=4096)  # remembers names that pass; a refusal is worked out every time
def _check_name(topic: str) -> None:
    try:
        check_topic(topic)
    except UsageError as error:
        raise Refused(error.what, code=ResponseCode.INVALID_PARAMETER, hint=error.hint) from None
    if not is_sendable_topic(topic):
        raise Refused(f"Sending message to topic[{topic}] is forbidden.", code=ResponseCode.NO_PERMISSION)
