"""The settings of a consumer group.

Owns        GroupConfig, when a failed message comes back.
Must not know   the members of the group now, the lengths of delay levels.

Source: Java SubscriptionGroupConfig, GroupRetryPolicy, CustomizedRetryPolicy, ExponentialRetryPolicy.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["CustomizedRetry", "ExponentialRetry", "GroupConfig", "RetryPolicy", "RetryPolicyType", "SimpleSubscription"]

_SECOND = 1000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_RETRY_STEPS_MS = (
    1 * _SECOND, 5 * _SECOND, 10 * _SECOND, 30 * _SECOND,
    1 * _MINUTE, 2 * _MINUTE, 3 * _MINUTE, 4 * _MINUTE, 5 * _MINUTE, 6 * _MINUTE, 7 * _MINUTE, 8 * _MINUTE,
    9 * _MINUTE, 10 * _MINUTE, 20 * _MINUTE, 30 * _MINUTE,
    1 * _HOUR, 2 * _HOUR,
)  # fmt: skip


class RetryPolicyType(enum.Enum):
    """Which of the two rules counts."""

    EXPONENTIAL = "EXPONENTIAL"
    CUSTOMIZED = "CUSTOMIZED"


@dataclass(frozen=True, slots=True)
class ExponentialRetry:
    """Each pause is `multiplier` times the one before; times in ms."""

    initial_ms: int = 5 * _SECOND
    max_ms: int = 2 * _HOUR
    multiplier: int = 2

    def delay_ms(self, reconsume_times: int) -> int:
        """Pause before the next try; `reconsume_times` counts the tries after the first."""
        steps = min(max(0, reconsume_times), 32)
        pause: int = self.initial_ms * self.multiplier**steps
        return max(0, min(self.max_ms, pause))


@dataclass(frozen=True, slots=True)
class CustomizedRetry:
    """A list of pauses in ms; the last one is repeated."""

    steps_ms: tuple[int, ...] = _RETRY_STEPS_MS

    def delay_ms(self, reconsume_times: int) -> int:
        """Pause before the next try. The first two steps are never used: delay levels start at 3 for retries."""
        index = min(max(0, reconsume_times) + 2, len(self.steps_ms) - 1)
        return self.steps_ms[index]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a failed message comes back; members that are None stand for the defaults and are not written to files."""

    type: RetryPolicyType = RetryPolicyType.CUSTOMIZED
    exponential: ExponentialRetry | None = None
    customized: CustomizedRetry | None = None

    def delay_ms(self, reconsume_times: int) -> int:
        """Pause in ms before the next try."""
        if self.type is RetryPolicyType.EXPONENTIAL:
            return (self.exponential or ExponentialRetry()).delay_ms(reconsume_times)
        return (self.customized or CustomizedRetry()).delay_ms(reconsume_times)


@dataclass(frozen=True, slots=True)
class SimpleSubscription:
    """The subscriptions of a group, kept with its settings (topic, expression and its type, version)."""

    topic: str
    expression: str = "*"
    expression_type: str = "TAG"
    version: int = 0


@dataclass(slots=True)
class GroupConfig:
    """Settings of one consumer group on one broker; defaults are RocketMQ's."""

    name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queues: int = 1
    retry_max_times: int = 16
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    sys_flag: int = 0
    consume_timeout_minutes: int = 15
    subscriptions: tuple[SimpleSubscription, ...] | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
