"""First positions of a pull consumer: saved in the background, before their queues are handed out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError, RemoteError
from rocketlake.base.service import Service
from rocketlake.client.consumer.commits import Commits
from rocketlake.client.consumer.offset_store import RemoteOffsets
from rocketlake.model.message_queue import MessageQueue

A0, A1, B0 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "b", 0)


class Brokers:
    """Committed offsets as the brokers have them; `gates` hold a commit back, `errors` are raised by it."""

    def __init__(self) -> None:
        self.offsets: dict[MessageQueue, int] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.errors: dict[MessageQueue, Exception] = {}
        self.asked: list[MessageQueue] = []

    async def committed(self, queue: MessageQueue) -> int:
        return self.offsets.get(queue, -1)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        self.asked.append(queue)
        if queue.broker_name in self.gates:
            await self.gates[queue.broker_name].wait()
        if queue in self.errors:
            raise self.errors[queue]
        self.offsets[queue] = offset


class Stage(Service):
    """Commits over these brokers."""

    def __init__(self) -> None:
        super().__init__("stage")
        self.brokers, self.rung, self.clock = Brokers(), asyncio.Event(), ManualClock()
        self.commits = Commits(
            self.brokers,
            RemoteOffsets(self.brokers.committed, self.brokers.commit),
            spawn=self.spawn,
            saved=self.rung.set,
            clock=self.clock,
            retry_seconds=1.0,
        )

    async def next_ring(self) -> None:
        async with asyncio.timeout(20):
            await self.rung.wait()
        self.rung.clear()


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with Stage() as stage:
        for queue in (A0, A1, B0):
            stage.commits.begin(queue, 7)
        yield stage


async def test_a_silent_broker_holds_back_its_own_queues_only(stage: Stage) -> None:
    stage.brokers.gates["a"] = asyncio.Event()
    stage.commits.save_starts()
    await stage.next_ring()
    assert [queue for queue in (A0, A1, B0) if stage.commits.holds_back(queue)] == [A0, A1]
    assert stage.brokers.offsets == {B0: 7}
    stage.brokers.gates["a"].set()
    while stage.commits.holds_back(A1):
        await stage.next_ring()
    assert stage.brokers.offsets == {A0: 7, A1: 7, B0: 7}


async def test_a_broker_out_of_reach_is_waited_for_once_a_round(stage: Stage) -> None:
    stage.brokers.errors = {A0: LinkError("down"), A1: LinkError("down")}
    stage.commits.save_starts()
    while stage.commits.holds_back(B0):
        await stage.next_ring()
    stage.commits.save_starts()  # the round at `a` goes on: it pauses
    assert stage.brokers.asked.count(A0) + stage.brokers.asked.count(A1) == 1
    stage.brokers.errors.clear()
    stage.clock.advance(1000)
    while stage.commits.holds_back(A1):
        await stage.next_ring()
        stage.commits.save_starts()
    assert stage.brokers.offsets == {A0: 7, A1: 7, B0: 7}


async def test_a_refusal_of_one_queue_holds_back_no_other(stage: Stage) -> None:
    stage.brokers.errors = {A0: RemoteError("no", code=16, remark="", address="a")}
    stage.commits.save_starts()
    while stage.commits.holds_back(A1) or stage.commits.holds_back(B0):
        await stage.next_ring()
    assert stage.commits.holds_back(A0)


async def test_a_position_that_the_user_chose_is_not_replaced(stage: Stage) -> None:
    stage.commits.forget_start(A0)
    stage.commits.save_starts()
    while stage.commits.holds_back(A1):
        await stage.next_ring()
    assert A0 not in stage.brokers.offsets
