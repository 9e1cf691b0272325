"""The settings that clients are told.

Owns        what a client says of itself and what it is answered.
Must not know   the client's connection, where a group's settings are kept.

Source: Java GrpcClientSettingsManager. `metric` is set in each answer: without it Apache's Python consumer does not
start.
"""

from __future__ import annotations

from typing import Any

from rocketlake.model.group import CustomizedRetry, ExponentialRetry, GroupConfig, RetryPolicy, RetryPolicyType
from rocketlake.model.lite import LITE_QUOTA, LITE_QUOTA_DEFAULT
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.convert.times import duration
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import ClientType

__all__ = ["RECEIVE_MAX", "of_consumer", "of_producer"]

RECEIVE_MAX = 32
LONG_POLL_MS_MAX = 20_000
_SEND_ATTEMPTS = 3
_SEND_PAUSE = ExponentialRetry(initial_ms=10, max_ms=1000, multiplier=2)
_INT32_MAX = 2**31 - 1
_LITE = (ClientType.LITE_PUSH_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER)


def of_producer(given: Any, body_bytes_max: int) -> Any:
    """The `v2.Settings` of a producer: what it said, with how often it tries again and how large a body may be."""
    told = v2.Settings()
    told.CopyFrom(given)
    told.backoff_policy.max_attempts = _SEND_ATTEMPTS
    _set_exponential(told.backoff_policy, _SEND_PAUSE)
    told.publishing.validate_message_type = True
    told.publishing.max_body_size = body_bytes_max
    return _without_metrics(told)


def of_consumer(given: Any, group: GroupConfig) -> Any:
    """The `v2.Settings` of a consumer: what it said, with what its group says."""
    told = v2.Settings()
    told.CopyFrom(given)
    _set_group(told, group)
    if given.client_type in _LITE:
        quota = group.attributes.get(LITE_QUOTA)
        told.subscription.lite_subscription_quota = _as_int32(int(quota or LITE_QUOTA_DEFAULT))
        told.subscription.max_lite_topic_size = Limits().lite_topic_bytes_max
    return _without_metrics(told)


def _as_int32(quota: int) -> int:
    """As the field holds it; a quota below 0 is none."""
    return min(quota, _INT32_MAX) if quota >= 0 else _INT32_MAX


def _set_group(told: Any, group: GroupConfig) -> None:
    told.subscription.receive_batch_size = RECEIVE_MAX
    told.subscription.long_polling_timeout.CopyFrom(duration(LONG_POLL_MS_MAX))
    told.subscription.fifo = group.consume_message_orderly
    told.backoff_policy.max_attempts = group.retry_max_times + 1
    _set_retry(told.backoff_policy, group.retry_policy)


def _set_retry(told: Any, policy: RetryPolicy) -> None:
    if policy.type is RetryPolicyType.EXPONENTIAL:
        _set_exponential(told, policy.exponential or ExponentialRetry())
        return
    steps = (policy.customized or CustomizedRetry()).steps_ms
    told.customized_backoff.CopyFrom(v2.CustomizedBackoff(next=map(duration, steps)))


def _set_exponential(told: Any, retry: ExponentialRetry) -> None:
    told.exponential_backoff.CopyFrom(
        v2.ExponentialBackoff(
            initial=duration(retry.initial_ms), max=duration(retry.max_ms), multiplier=retry.multiplier
        )
    )


def _without_metrics(told: Any) -> Any:
    told.metric.CopyFrom(v2.Metric(on=False))
    return told
