"""The next queue: evenly, away from failed and slow brokers, or by key as Java does."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketlake.client.producer.fault_latency import FaultLatency
from rocketlake.client.producer.queue_choice import QueueChoice, at_random, by_key, by_lite_topic, java_hash
from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue

QUEUES = [MessageQueue("T", broker, number) for broker in ("a", "b") for number in range(4)]
MESSAGE = Message("T", b"x")


def test_round_robin_gives_each_queue_its_turn() -> None:
    choice = QueueChoice(FaultLatency())
    chosen = Counter(choice.choose("T", QUEUES, now=0.0) for _ in range(80))
    assert set(chosen.values()) == {10}


def test_topics_have_counters_of_their_own() -> None:
    choice = QueueChoice(FaultLatency())
    first = [choice.choose("T", QUEUES, now=0.0) for _ in range(8) if choice.choose("U", QUEUES, now=0.0)]
    assert len(set(first)) == 8


def test_a_broker_to_avoid_is_not_chosen() -> None:
    choice = QueueChoice(FaultLatency())
    chosen = {choice.choose("T", QUEUES, avoid=frozenset("a"), now=0.0).broker_name for _ in range(20)}
    assert chosen == {"b"}


def test_when_all_are_to_be_avoided_one_is_chosen_all_the_same() -> None:
    choice = QueueChoice(FaultLatency())
    assert choice.choose("T", QUEUES, avoid=frozenset("ab"), now=0.0) in QUEUES


def test_a_slow_broker_is_passed_over_until_its_time_is_over() -> None:
    faults = FaultLatency(enabled=True)
    choice = QueueChoice(faults)
    faults.failed("a", now=0.0)
    assert {choice.choose("T", QUEUES, now=9.0).broker_name for _ in range(20)} == {"b"}
    assert {choice.choose("T", QUEUES, now=10.0).broker_name for _ in range(20)} == {"a", "b"}


def test_a_slow_broker_is_better_than_the_one_that_just_failed() -> None:
    faults = FaultLatency(enabled=True)
    faults.failed("a", now=0.0)
    choice = QueueChoice(faults)
    assert choice.choose("T", QUEUES, avoid=frozenset("b"), now=1.0).broker_name == "a"


@given(st.one_of(st.text(), st.integers(-(2**63), 2**63 - 1)))
def test_equal_keys_go_to_one_queue(key: str | int) -> None:
    assert by_key(key)(QUEUES, MESSAGE) == by_key(key)(QUEUES, MESSAGE)


@pytest.mark.parametrize(
    ("key", "expected"), [("TagA", 2598919), ("", 0), (7, 7), (-7, -7), (2**32, 1), (2**63 - 1, -(2**31))]
)
def test_hash_of_a_key_is_javas(key: str | int, expected: int) -> None:
    assert java_hash(key) == expected


def test_a_negative_hash_takes_the_absolute_remainder() -> None:
    assert by_key(-3)(QUEUES, MESSAGE) == QUEUES[3]


def test_at_random_stays_in_the_list() -> None:
    assert {at_random(QUEUES, MESSAGE) for _ in range(200)} <= set(QUEUES)


def test_messages_of_a_lite_topic_stay_when_queues_come() -> None:
    """As at the proxies: a new queue takes some lite topics over, and no other one moves."""
    messages = [Message("T", b"x", lite_topic=f"session-{number}") for number in range(200)]
    more = [*QUEUES, MessageQueue("T", "new", 0)]
    moved = 0
    for message in messages:
        before, after = by_lite_topic(QUEUES, message), by_lite_topic(more, message)
        assert after in (before, more[-1])
        moved += after != before
    assert 0 < moved < 100
    assert len({by_lite_topic(QUEUES, message) for message in messages}) == len(QUEUES)
