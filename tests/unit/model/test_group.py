from __future__ import annotations

import pytest

from rocketlake.model.group import CustomizedRetry, ExponentialRetry, GroupConfig, RetryPolicy, RetryPolicyType

MINUTE = 60_000


def test_defaults_are_those_of_rocketmq():
    group = GroupConfig("g")
    assert (group.consume_enable, group.consume_from_min_enable, group.consume_broadcast_enable) == (True, True, True)
    assert not group.consume_message_orderly
    assert (group.retry_queues, group.retry_max_times, group.consume_timeout_minutes) == (1, 16, 15)
    assert (group.broker_id, group.which_broker_when_consume_slowly, group.sys_flag) == (0, 1, 0)
    assert group.notify_consumer_ids_changed_enable
    assert group.subscriptions is None
    assert group.retry_policy == RetryPolicy(RetryPolicyType.CUSTOMIZED)


@pytest.mark.parametrize(
    ("times", "delay"), [(-1, 10_000), (0, 10_000), (1, 30_000), (2, MINUTE), (15, 120 * MINUTE), (99, 120 * MINUTE)]
)
def test_the_customized_policy_follows_the_delay_levels_from_the_third(times, delay):
    assert RetryPolicy().delay_ms(times) == delay


def test_a_short_own_list_ends_with_its_last_step():
    assert CustomizedRetry((1, 2)).delay_ms(0) == 2
    assert CustomizedRetry((1, 2, 3, 4)).delay_ms(1) == 4


@pytest.mark.parametrize(
    ("times", "delay"), [(0, 5000), (1, 10_000), (3, 40_000), (20, 120 * MINUTE), (10_000, 120 * MINUTE)]
)
def test_the_exponential_policy_doubles_up_to_two_hours(times, delay):
    assert RetryPolicy(RetryPolicyType.EXPONENTIAL).delay_ms(times) == delay


def test_own_numbers_of_the_exponential_policy():
    policy = RetryPolicy(RetryPolicyType.EXPONENTIAL, exponential=ExponentialRetry(100, 1000, 3))
    assert [policy.delay_ms(times) for times in range(4)] == [100, 300, 900, 1000]
