from __future__ import annotations

from typing import Any

from rocketlake.model.group import ExponentialRetry, GroupConfig, RetryPolicy, RetryPolicyType
from rocketlake.proxy.convert.settings import of_consumer, of_producer
from rocketlake.proxy.convert.times import duration, ms_of
from rocketlake.proxy.v2 import messages as v2
from rocketlake.proxy.v2.messages import ClientType


def consumer(**subscription: Any) -> Any:
    entry = v2.SubscriptionEntry(topic=v2.Resource(name="T"), expression=v2.FilterExpression(expression="*"))
    return v2.Settings(
        client_type=ClientType.PUSH_CONSUMER,
        request_timeout=duration(3000),
        subscription=v2.Subscription(group=v2.Resource(name="g"), subscriptions=[entry], **subscription),
    )


def test_a_producer() -> None:
    given = v2.Settings(
        client_type=ClientType.PRODUCER,
        backoff_policy=v2.RetryPolicy(max_attempts=9, customized_backoff=v2.CustomizedBackoff(next=[duration(1)])),
        publishing=v2.Publishing(topics=[v2.Resource(name="T")]),
    )
    told = of_producer(given, 4 << 20)
    assert told.publishing == v2.Publishing(
        topics=[v2.Resource(name="T")], max_body_size=4 << 20, validate_message_type=True
    )
    assert told.backoff_policy.max_attempts == 3
    backoff = told.backoff_policy.exponential_backoff
    assert (ms_of(backoff.initial), ms_of(backoff.max), backoff.multiplier) == (10, 1000, 2.0)
    assert told.HasField("metric") and not told.metric.on
    assert given.publishing.max_body_size == 0


def test_a_consumer_of_a_known_group() -> None:
    given = consumer(fifo=False, receive_batch_size=7)
    told = of_consumer(given, GroupConfig("g", consume_message_orderly=True, retry_max_times=4))
    assert told.subscription.fifo
    assert told.subscription.receive_batch_size == 32
    assert ms_of(told.subscription.long_polling_timeout) == 20_000
    assert told.subscription.subscriptions == given.subscription.subscriptions
    assert told.backoff_policy.max_attempts == 5
    steps = [ms_of(each) for each in told.backoff_policy.customized_backoff.next]
    assert (steps[0], steps[-1], len(steps)) == (1000, 7_200_000, 18)
    assert told.HasField("metric") and not told.metric.on
    assert told.request_timeout == duration(3000)
    assert of_consumer(told, GroupConfig("g", retry_max_times=4)).backoff_policy == told.backoff_policy


def test_exponential_retries() -> None:
    policy = RetryPolicy(RetryPolicyType.EXPONENTIAL, ExponentialRetry(100, 5000, 3))
    told = of_consumer(consumer(), GroupConfig("g", retry_policy=policy))
    backoff = told.backoff_policy.exponential_backoff
    assert (ms_of(backoff.initial), ms_of(backoff.max), backoff.multiplier) == (100, 5000, 3.0)


def test_lite_consumers_are_told_how_long_a_lite_topic_may_be() -> None:
    given = consumer()
    given.client_type = ClientType.LITE_PUSH_CONSUMER
    assert of_consumer(given, GroupConfig("g")).subscription.max_lite_topic_size == 64
    assert not of_consumer(consumer(), GroupConfig("g")).subscription.HasField("max_lite_topic_size")
