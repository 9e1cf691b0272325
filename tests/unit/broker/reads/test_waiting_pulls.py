"""Pulls that wait: how long, what wakes them, and the answer when there is no room or the disk fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.broker.long_polling.pull_hold import PullHold
from rocketlake.broker.reads.waiting_pulls import WaitingPulls
from rocketlake.net.request import Held, Reply, Request
from rocketlake.protocol.command import Command
from rocketlake.protocol.response_code import ResponseCode as Code
from rocketlake.store.results import GetStatus, PutMessage
from tests.requests import pull_header
from tests.unit.broker.room_world import RoomWorld

AGAIN = Reply(Code.PULL_RETRY_IMMEDIATELY)
"""The answer of a pull that went on."""


class Room(RoomWorld):
    def __init__(self) -> None:
        super().__init__(property_filter_enabled=True, held_pulls_max=2)
        self.hold = PullHold(self.clock, self.turns, 2)
        self.waiting = WaitingPulls(self.config, self.store, self.hold, self.clock)
        self.store.on_arrival = lambda topic, queue_id, end, tag, _ms: self.hold.reached((topic, queue_id), end, tag)
        self.store.is_awaited = lambda topic, queue_id: self.hold.has_waiters((topic, queue_id))

    async def pull(self, **fields: Any) -> asyncio.Task[Command]:
        pull = pull_header(**{"wait_ms": 10_000, **fields})

        def serve(request: Request) -> Reply | Held:
            return self.waiting.hold(request, pull, self.admit(pull), lambda _request: AGAIN)

        return await self.ask(serve)

    async def load(self) -> asyncio.Task[Command]:
        """A pull whose records a worker must read."""
        cold = self.store.get("T", 0, 0, 32, 1 << 20, wait=False)
        assert cold.status is GetStatus.NOT_IN_MEMORY
        return await self.ask(lambda request: self.waiting.load(request, cold.cold, lambda _request: AGAIN))


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with Room() as room:
        await room.hold.start()
        yield room
        await room.hold.stop()


@pytest.mark.parametrize(
    ("fields", "wakes"),
    [
        ({}, True),
        ({"queue_id": 1}, False),
        ({"subscription": "A"}, True),
        ({"subscription": "B"}, False),
        ({"subscription": "n = 1", "expression_type": "SQL92"}, True),
        ({"subscription": "n = 2", "expression_type": "SQL92"}, False),
    ],
)
async def test_a_message_that_the_pull_wants_wakes_it(room: Room, fields: dict[str, Any], wakes: bool) -> None:
    held = await room.pull(**fields)
    assert (held.done(), len(room.hold)) == (False, 1)
    room.store.put(PutMessage("T", 0, b"x", b"TAGS\x01A\x02n\x011\x02"))
    await room.clock.settle()
    assert (held.done(), len(room.hold)) == (wakes, 1 - wakes)


@pytest.mark.parametrize(
    ("long_polling", "asked_ms", "too_early_ms", "late_ms"),
    [("true", 5000, 4800, 5300), ("true", -7, 0, 300), ("false", 5000, 800, 1300)],
)
async def test_a_pull_waits_as_long_as_it_asks_for_or_a_second_without_long_polling(
    room: Room, long_polling: str, asked_ms: int, too_early_ms: int, late_ms: int
) -> None:
    room.config.update({"longPollingEnable": long_polling})
    held = await room.pull(suspend_timeout_millis=asked_ms)
    await room.clock.run_for(too_early_ms)
    assert not held.done()
    await room.clock.run_for(late_ms - too_early_ms)
    assert held.result().code == AGAIN.code


async def test_without_room_a_pull_is_refused_with_a_cure_and_a_pull_of_a_run_too(room: Room) -> None:
    waiting = [await room.pull() for _ in range(2)]
    refused = (await room.pull()).result()
    assert refused.code == Code.SYSTEM_BUSY and "2 pulls wait (pullThreadPoolQueueCapacity)" in (refused.remark or "")
    pull, resumed = pull_header(wait_ms=10_000), list[int]()
    admission, asker = room.admit(pull), next(iter(room.server.links))
    assert not room.waiting.hold_plain(pull, asker, admission, lambda: resumed.append(1))
    room.hold.wake_all()
    await room.clock.settle()
    assert [held.done() for held in waiting] == [True, True]
    assert room.waiting.hold_plain(pull, asker, admission, lambda: resumed.append(1))
    room.hold.wake_all()
    await room.clock.settle()
    assert resumed == [1]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_pull_of_cold_records_goes_on_when_they_are_there_and_tells_an_error_of_the_disk(
    room: Room, fails: bool
) -> None:
    for _ in range(3):
        room.store.put(PutMessage("T", 0, b"x" * 120_000))
    room.plan.add(Fault("is_resident", "commitlog", error=None))
    held = await room.load()
    assert not held.done()
    if fails:
        room.plan.add(Fault("pread", "commitlog"))
    while not held.done():
        room.reads.run_all()
        await room.clock.run_for(10)
    assert held.result().code == (Code.SYSTEM_ERROR if fails else AGAIN.code)
    assert ("the store cannot be read" in (held.result().remark or "")) is fails


async def test_loads_and_holds_share_the_room(room: Room) -> None:
    for _ in range(3):
        room.store.put(PutMessage("T", 0, b"x" * 120_000))
    room.plan.add(Fault("is_resident", "commitlog", error=None))
    waiting = [await room.load(), await room.pull(offset=3)]
    assert (await room.load()).result().code == Code.SYSTEM_BUSY
    assert [held.done() for held in waiting] == [False, False]
