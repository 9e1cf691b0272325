"""Rounds of one consumer: which member decides, when a round starts, and how a round ends that misses an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.allocate import averagely
from rocketlake.client.consumer.rebalance import Rebalance
from rocketlake.model.message_queue import MessageQueue


class Owner:
    """A consumer that notes what it takes and leaves; `locked` queues cannot be taken, `busy` ones not be left."""

    def __init__(self) -> None:
        self.held: set[MessageQueue] = set()
        self.stale: set[MessageQueue] = set()
        self.locked: set[MessageQueue] = set()
        self.busy: set[MessageQueue] = set()
        self.log: list[str] = []

    def queues(self) -> Collection[MessageQueue]:
        return list(self.held)

    def stale_queues(self) -> Collection[MessageQueue]:
        return list(self.stale)

    async def take(self, queue: MessageQueue) -> bool:
        if queue in self.locked:
            return False
        self.log.append(f"take {queue.queue_id}")
        self.held.add(queue)
        return True

    async def leave(self, queue: MessageQueue) -> bool:
        if queue in self.busy:
            return False
        self.log.append(f"leave {queue.queue_id}")
        self.held.discard(queue)
        self.stale.discard(queue)
        return True

    def assigned(self, topic: str, own: Collection[MessageQueue]) -> None:
        self.log.append(f"own {len(own)}")


class Stage:
    def __init__(self, peers: Any, broker: Any, *, broadcasting: bool = False) -> None:
        self.instance = peers.client()
        self.owner = Owner()
        self.broker = broker
        self.rebalance = Rebalance(
            self.instance,
            self.owner,
            group="g",
            config=ConsumerConfig(),
            allocate=averagely,
            broadcasting=broadcasting,
            clock=self.instance.clock,
        )
        self.rebalance.topics.add("T")

    def members(self, *others: str) -> None:
        self.broker.members = [self.instance.client_id, *others]

    @property
    def ids(self) -> list[int]:
        return sorted(queue.queue_id for queue in self.owner.held)


@pytest.fixture
async def broker(peers: Any, make_broker: Any) -> Any:
    broker = await make_broker("a")
    peers.route("T", broker, queues=4)
    return broker


async def test_a_lone_member_takes_all_queues(peers: Any, broker: Any) -> None:
    it = Stage(peers, broker)
    it.members()
    assert await it.rebalance.once()
    assert it.ids == [0, 1, 2, 3]
    assert it.owner.log[-1] == "own 4"


async def test_queues_are_left_before_others_are_taken_when_a_member_joins(peers: Any, broker: Any) -> None:
    it = Stage(peers, broker)
    it.members()
    await it.rebalance.once()
    it.members("zzz")  # sorts behind us
    assert await it.rebalance.once()
    assert it.ids == [0, 1]
    assert it.owner.log[-3:] == ["leave 2", "leave 3", "own 2"]


async def test_nothing_changes_while_the_broker_does_not_know_us(peers: Any, broker: Any) -> None:
    it = Stage(peers, broker)
    it.members()
    await it.rebalance.once()
    broker.members = ["somebody else"]
    assert not await it.rebalance.once()
    assert it.ids == [0, 1, 2, 3]


async def test_nothing_changes_while_members_cannot_be_asked(peers: Any, broker: Any) -> None:
    it = Stage(peers, broker)
    it.members()
    await it.rebalance.once()
    await peers.kill("a")
    assert not await it.rebalance.once()
    assert it.ids == [0, 1, 2, 3]


async def test_a_topic_without_route_is_tried_again_and_does_not_hold_up_others(peers: Any, broker: Any) -> None:
    it = Stage(peers, broker)
    it.members()
    it.rebalance.topics.add("Missing")
    assert not await it.rebalance.once()
    assert it.ids == [0, 1, 2, 3]


async def test_a_queue_that_cannot_be_taken_now_is_taken_in_a_later_round(peers: Any, broker: Any) -> None:
    it = Stage(peers, broker)
    it.members()
    it.owner.locked = {MessageQueue("T", "a", 1)}
    assert not await it.rebalance.once()
    assert it.ids == [0, 2, 3]
    it.owner.locked.clear()
    assert await it.rebalance.once()
    assert it.ids == [0, 1, 2, 3]


async def test_a_queue_that_cannot_be_left_now_is_left_in_a_later_round(peers: Any, broker: Any) -> None:
    it = Stage(peers, broker)
    it.members()
    await it.rebalance.once()
    it.owner.busy = {MessageQueue("T", "a", 3)}
    it.members("zzz")
    assert not await it.rebalance.once()
    assert it.ids == [0, 1, 3]
    it.owner.busy.clear()
    assert await it.rebalance.once()
    assert it.ids == [0, 1]


async def test_a_stale_queue_is_left_and_taken_anew(peers: Any, broker: Any) -> None:
    it = Stage(peers, broker)
    it.members()
    await it.rebalance.once()
    it.owner.stale = {MessageQueue("T", "a", 2)}
    it.owner.log.clear()
    assert await it.rebalance.once()
    assert it.owner.log == ["leave 2", "take 2", "own 4"]


async def test_a_stale_queue_that_cannot_be_left_is_not_taken_twice(peers: Any, broker: Any) -> None:
    it = Stage(peers, broker)
    it.members()
    await it.rebalance.once()
    it.owner.stale = it.owner.busy = {MessageQueue("T", "a", 2)}
    it.owner.log.clear()
    assert not await it.rebalance.once()
    assert it.owner.log == []


async def test_a_strategy_that_fails_leaves_everything_as_it_is(peers: Any, broker: Any) -> None:
    it = Stage(peers, broker)
    it.members()
    await it.rebalance.once()

    def broken(*_: Any) -> list[MessageQueue]:
        raise ZeroDivisionError

    it.rebalance._allocate = broken
    assert not await it.rebalance.once()
    assert it.ids == [0, 1, 2, 3]


async def test_an_unsubscribed_topic_is_left(peers: Any, broker: Any) -> None:
    it = Stage(peers, broker)
    it.members()
    await it.rebalance.once()
    it.rebalance.topics.clear()
    assert await it.rebalance.once()
    assert it.ids == []


async def test_broadcasting_takes_every_queue_whoever_else_is_there(peers: Any, broker: Any) -> None:
    it = Stage(peers, broker, broadcasting=True)
    broker.members = ["a", "b", "c"]
    assert await it.rebalance.once()
    assert it.ids == [0, 1, 2, 3]


async def test_a_member_without_a_queue_hears_of_it_but_not_for_the_groups_retry_topic(
    peers: Any, broker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    peers.route("Small", broker, queues=1)
    peers.route("%RETRY%g", broker, queues=1)
    it = Stage(peers, broker)
    it.members("+")  # sorts before us
    it.rebalance.topics |= {"Small", "%RETRY%g"}
    await it.rebalance.once()
    assert "gets no queue of topic Small and reads nothing of it (queues: 1, members: 2)" in caplog.text
    assert "%RETRY%" not in caplog.text


async def test_the_wait_for_a_round_ends_with_its_limit(peers: Any, clock: ManualClock) -> None:
    """A start waits for the first round; brokers that do not answer must not hang it."""
    rebalance = Rebalance(
        peers.client(),
        Owner(),
        group="g",
        config=ConsumerConfig(),
        allocate=averagely,
        broadcasting=False,
        clock=clock,
    )
    waiting = asyncio.create_task(rebalance.next_ended(3.0))
    await clock.settle()
    clock.advance(3000)
    assert not await waiting
