"""Bodies of consumer group configurations.

Owns        their shape.
Must not know   the group table of a broker.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from rocketlake.protocol.bodies.body import Body, Entry
from rocketlake.protocol.bodies.data_version import DataVersionBody


class ExponentialRetry(Entry, kw_only=True):
    """Pauses that grow: first, largest (ms), factor."""

    initial: int = 5000
    max: int = 7200000
    multiplier: int = 2


class CustomizedRetry(Entry, kw_only=True):
    """Pauses one by one, in ms."""

    next: list[int] = field(default_factory=list)


class RetryPolicyEntry(Entry, kw_only=True):
    """How long a message waits before it is consumed again; `type` EXPONENTIAL or CUSTOMIZED."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: ExponentialRetry | None = None
    customized_retry_policy: CustomizedRetry | None = None


class SimpleSubscription(Entry, kw_only=True):
    """A subscription fixed by the administrator."""

    topic: str = ""
    expression: str = "*"
    expression_type: str = "TAG"
    version: int = 0


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


class GroupTable(Body, kw_only=True):
    """Answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG; `forbidden` holds bit sets by group and topic."""

    data_version: DataVersionBody | None = None
    groups: dict[str, GroupEntry] = field(default_factory=dict, name="subscriptionGroupTable")
    forbidden: dict[str, dict[str, int]] = field(default_factory=dict, name="forbiddenTable")


class GroupConfigList(Body, kw_only=True):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST."""

    groups: list[GroupEntry] = field(default_factory=list, name="groupConfigList")


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
