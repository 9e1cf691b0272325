from __future__ import annotations

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.option_values import Given
from rocketlake.spark.source.topics import TopicChoice, parse_choice

THERE = [
    "orders", "orders-eu", "%RETRY%orders", "%DLQ%orders", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer",
    "DefaultCluster", "broker-a", "DefaultCluster_REPLY_TOPIC", "TBW102",
]  # fmt: skip
RESERVED = {"DefaultCluster", "broker-a"}


def choice(**given: str) -> TopicChoice:
    return parse_choice(Given(given))


def test_a_pattern_takes_whole_names_and_leaves_out_what_rocketmq_made_for_itself() -> None:
    assert choice(subscribePattern="orders").of_all(THERE, RESERVED) == ["orders"]
    assert choice(subscribePattern="orders.*").of_all(THERE, RESERVED) == ["orders", "orders-eu"]
    assert choice(subscribePattern=".*").of_all(THERE, RESERVED) == ["orders", "orders-eu"]
    every = choice(subscribePattern=".*", includeSystemTopics="true").of_all(THERE, RESERVED)
    assert every == sorted(THERE)


def test_a_wrong_pattern_is_refused_with_the_place() -> None:
    with pytest.raises(UsageError, match="at character 7"):
        choice(subscribePattern="orders(")


def test_assigned_queues_are_the_only_ones_taken() -> None:
    assigned = choice(assign='{"T": {"b": [2, 0]}, "S": {"b": [1]}}')
    assert assigned.names == ("S", "T")
    route = [MessageQueue("T", "b", number) for number in range(4)]
    assert assigned.of_route(route) == {MessageQueue("T", "b", 0), MessageQueue("T", "b", 2)}
    assert choice(subscribe="T").of_route(route) == set(route)


@pytest.mark.parametrize(
    "text",
    [
        "T",
        "{}",
        '{"T": [0]}',
        '{"T": {"b": 0}}',
        '{"T": {"b": ["0"]}}',
        '{"T": {"b": [-1]}}',
        '{"T": {"b": [1, 1]}}',
    ],
)
def test_a_wrong_assign_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(UsageError, match=r"assign.*broker-a"):
        choice(assign=text)


def test_each_choice_has_a_text_of_its_own() -> None:
    assert str(choice(subscribe="b,a")) == "a,b"
    assert str(choice(subscribePattern="a.*")) == "pattern a.*"
    assert str(choice(assign='{"T": {"b": [1]}}')) == "T/b/1"
