"""Bodies of consumer group configurations.

Owns        their shape.
Must not know   the group table of a broker.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar, Final

from msgspec import field

from rocketlake.model import group as model
from rocketlake.protocol.bodies.body import UNTYPED_BYTES_MAX, Body, Entry, decoding_list
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.java_enum import RetryPolicyType

_POLICY_TYPES: Final = {kind.value: kind for kind in model.RetryPolicyType}


class ExponentialRetry(Entry, kw_only=True):
    """Pauses that grow: first, largest (ms), factor."""

    initial: int = 5000
    max: int = 7200000
    multiplier: int = 2

    def to_model(self) -> model.ExponentialRetry:
        """The model value."""
        return model.ExponentialRetry(self.initial, self.max, self.multiplier)


class CustomizedRetry(Entry, kw_only=True):
    """Pauses one by one, in ms; absent = Java's eighteen steps."""

    next: list[int] = field(default_factory=list)

    def to_model(self) -> model.CustomizedRetry:
        """The model value."""
        return model.CustomizedRetry(tuple(self.next)) if self.next else model.CustomizedRetry()


class RetryPolicyEntry(Entry, kw_only=True):
    """How long a message waits before it is consumed again; `type` EXPONENTIAL or CUSTOMIZED."""

    type: RetryPolicyType = "CUSTOMIZED"
    exponential_retry_policy: ExponentialRetry | None = None
    customized_retry_policy: CustomizedRetry | None = None

    def to_model(self) -> model.RetryPolicy:
        """The model value."""
        exponential, customized = self.exponential_retry_policy, self.customized_retry_policy
        return model.RetryPolicy(
            type=_POLICY_TYPES.get(self.type, model.RetryPolicyType.CUSTOMIZED),
            exponential=None if exponential is None else exponential.to_model(),
            customized=None if customized is None else customized.to_model(),
        )

    @classmethod
    def from_model(cls, policy: model.RetryPolicy) -> RetryPolicyEntry:
        """From the model value."""
        entry = cls(type=policy.type.value)
        if (growing := policy.exponential) is not None:
            entry.exponential_retry_policy = ExponentialRetry(
                initial=growing.initial_ms, max=growing.max_ms, multiplier=growing.multiplier
            )
        if policy.customized is not None:
            entry.customized_retry_policy = CustomizedRetry(next=list(policy.customized.steps_ms))
        return entry


class SimpleSubscription(Entry, kw_only=True):
    """A subscription fixed by the administrator."""

    topic: str = ""
    expression: str = "*"
    expression_type: str = "TAG"
    version: int = 0

    def to_model(self) -> model.SimpleSubscription:
        """The model value."""
        return model.SimpleSubscription(self.topic, self.expression, self.expression_type, self.version)

    @classmethod
    def from_model(cls, entry: model.SimpleSubscription) -> SimpleSubscription:
        """From the model value."""
        return cls(
            topic=entry.topic, expression=entry.expression, expression_type=entry.expression_type, version=entry.version
        )


class GroupEntry(Body, kw_only=True):
    """One group configuration; alone it is the body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: RetryPolicyEntry = field(default_factory=RetryPolicyEntry)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[SimpleSubscription] | None = None
    attributes: dict[str, str] = field(default_factory=dict)

    def to_model(self) -> model.GroupConfig:
        """The model value."""
        subscriptions = self.subscription_data_set
        return model.GroupConfig(
            name=self.group_name,
            consume_enable=self.consume_enable,
            consume_from_min_enable=self.consume_from_min_enable,
            consume_broadcast_enable=self.consume_broadcast_enable,
            consume_message_orderly=self.consume_message_orderly,
            retry_queues=self.retry_queue_nums,
            retry_max_times=self.retry_max_times,
            retry_policy=self.group_retry_policy.to_model(),
            broker_id=self.broker_id,
            which_broker_when_consume_slowly=self.which_broker_when_consume_slowly,
            notify_consumer_ids_changed_enable=self.notify_consumer_ids_changed_enable,
            sys_flag=self.group_sys_flag,
            consume_timeout_minutes=self.consume_timeout_minute,
            subscriptions=None if subscriptions is None else tuple(entry.to_model() for entry in subscriptions),
            attributes=dict(self.attributes),
        )

    @classmethod
    def from_model(cls, config: model.GroupConfig) -> GroupEntry:
        """From the model value."""
        subscriptions = config.subscriptions
        return cls(
            group_name=config.name,
            consume_enable=config.consume_enable,
            consume_from_min_enable=config.consume_from_min_enable,
            consume_broadcast_enable=config.consume_broadcast_enable,
            consume_message_orderly=config.consume_message_orderly,
            retry_queue_nums=config.retry_queues,
            retry_max_times=config.retry_max_times,
            group_retry_policy=RetryPolicyEntry.from_model(config.retry_policy),
            broker_id=config.broker_id,
            which_broker_when_consume_slowly=config.which_broker_when_consume_slowly,
            notify_consumer_ids_changed_enable=config.notify_consumer_ids_changed_enable,
            group_sys_flag=config.sys_flag,
            consume_timeout_minute=config.consume_timeout_minutes,
            subscription_data_set=(
                None if subscriptions is None else [SimpleSubscription.from_model(entry) for entry in subscriptions]
            ),
            attributes=dict(config.attributes),
        )


class GroupTable(Body, kw_only=True):
    """Answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG; `forbidden` holds bit sets by group and topic."""

    data_version: DataVersionBody | None = None
    groups: dict[str, GroupEntry] = field(default_factory=dict, name="subscriptionGroupTable")
    forbidden: dict[str, dict[str, int]] = field(default_factory=dict, name="forbiddenTable")


class GroupConfigList(Body, kw_only=True):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST."""

    untyped_bytes_max: ClassVar[int | None] = UNTYPED_BYTES_MAX
    groups: list[GroupEntry] = field(default_factory=list, name="groupConfigList")

    @classmethod
    def decoding(cls, data: bytes | memoryview) -> Generator[None, None, list[GroupEntry]]:
        """The elements of a body, one a step. Raises BodyError."""
        return decoding_list(cls, "groupConfigList", GroupEntry, data)


class GroupForbidden(Body, kw_only=True):
    """Answer of UPDATE_AND_GET_GROUP_FORBIDDEN."""

    group: str
    topic: str
    readable: bool = True


class SubscriptionOfConsumer(Body, kw_only=True):
    """Answer of QUERY_SUBSCRIPTION_BY_CONSUMER; `subscription_data` is a SubscriptionEntry as plain JSON."""

    group: str
    topic: str | None = None
    subscription_data: dict[str, Any] | None = None
