"""Messages that the proxy keeps invisible for their clients, by a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError
from rocketlake.proxy.convert.receipts import Receipt
from rocketlake.proxy.services.renewals import FIRST_INVISIBLE_MS, Renewals

MINUTE_MS = 60_000


class Brokers:
    """What brokers are asked: (offset of the message, new invisible time)."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.asked: list[tuple[int, int]] = []
        self.silent: set[str] = set()

    async def change(self, topic: str, group: str, receipt: Receipt, invisible_ms: int) -> Receipt:
        assert (topic, group) == ("T", "g")
        handle = receipt.handle
        if handle.broker_name in self.silent:
            await self.clock.sleep(3)
            raise LinkError("no answer in time")
        self.asked.append((handle.offset, invisible_ms))
        return replace(receipt, handle=replace(handle, pop_ms=int(self.clock.now_ms()), invisible_ms=invisible_ms))


class World:
    def __init__(self, held_max: int = 1000) -> None:
        self.clock = ManualClock()
        self.brokers = Brokers(self.clock)
        self.connected = {"c"}
        self.renewals = Renewals(self.brokers, lambda client: client in self.connected, self.clock, held_max=held_max)

    def hold(self, *offsets: int, broker: str = "b", client: str = "c") -> list[str]:
        receipts = [
            Receipt.parse(f"0 {self.clock.now_ms()} {FIRST_INVISIBLE_MS} 0 0 {broker} 3 {offset} 77")
            for offset in offsets
        ]
        self.renewals.hold(client, "T", "g", receipts)
        return [str(receipt) for receipt in receipts]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    async with world.renewals:
        yield world


async def test_each_renewal_is_longer_until_the_message_is_acknowledged(world: World) -> None:
    (text,) = world.hold(7)
    await world.clock.run_for(45_000)
    assert world.brokers.asked == []
    await world.clock.run_for(10_000)
    assert world.brokers.asked == [(7, MINUTE_MS)], "ten seconds before its time is over"
    await world.clock.run_for(1000 * (60 + 180))
    assert world.brokers.asked == [(7, MINUTE_MS), (7, 3 * MINUTE_MS), (7, 5 * MINUTE_MS)]
    async with world.renewals.settle(text) as receipt:
        assert receipt.handle.invisible_ms == 5 * MINUTE_MS
    assert text not in world.renewals
    await world.clock.run_for(3600_000)
    assert len(world.brokers.asked) == 3


async def test_what_is_acknowledged_in_time_is_never_renewed(world: World) -> None:
    first, second = world.hold(1, 2)
    world.renewals.begin(first)
    assert not world.renewals.is_free(first)
    world.renewals.finish(first, is_done=True)
    async with world.renewals.settle(second) as receipt:
        assert str(receipt) == second
    assert len(world.renewals) == 0
    await world.clock.run_for(120_000)
    assert world.brokers.asked == []


async def test_a_message_whose_acknowledgement_failed_is_kept_on(world: World) -> None:
    (text,) = world.hold(1)
    world.renewals.begin(text)
    await world.clock.run_for(52_000)
    assert world.brokers.asked == [], "not while it is being acknowledged"
    world.renewals.finish(text, is_done=False)
    assert world.renewals.is_free(text)
    await world.clock.run_for(5_000)
    assert world.brokers.asked == [(1, MINUTE_MS)]


async def test_an_acknowledgement_waits_for_the_renewal_under_way(world: World) -> None:
    world.brokers.silent.add("b")
    (text,) = world.hold(1)
    await world.clock.run_for(51_000)
    assert not world.renewals.is_free(text)
    settled: list[Receipt] = []

    async def settle() -> None:
        async with world.renewals.settle(text) as receipt:
            settled.append(receipt)

    task = asyncio.create_task(settle())
    await world.clock.run_for(1_000)
    assert settled == []
    await world.clock.run_for(3_000)
    await task
    assert [str(receipt) for receipt in settled] == [text], "the renewal failed: the receipt is the first one"


async def test_a_broker_that_does_not_answer_keeps_no_other_waiting(world: World) -> None:
    world.brokers.silent.add("a")
    world.hold(*range(200), broker="a")
    world.hold(*range(1000, 1100), broker="b")
    await world.clock.run_for(52_000)
    assert sorted(offset for offset, _ in world.brokers.asked) == list(range(1000, 1100))
    await world.clock.run_for(60_000)
    assert len(world.renewals) == 100, "those of the silent broker come again"


@pytest.mark.parametrize("step_ms", [-10 * MINUTE_MS, 10 * MINUTE_MS])
async def test_a_step_of_the_wall_clock_changes_no_renewal(world: World, step_ms: int) -> None:
    world.hold(1)
    await world.clock.run_for(52_000)  # 1 is renewed once
    world.hold(2)
    world.clock.jump_wall(step_ms)
    world.hold(3)
    world.brokers.asked.clear()
    await world.clock.run_for(62_000)
    assert sorted(world.brokers.asked) == [(1, 3 * MINUTE_MS), (2, MINUTE_MS), (3, MINUTE_MS)]
    assert len(world.renewals) == 3


async def test_without_its_client_a_message_is_not_renewed(world: World) -> None:
    (text,) = world.hold(1)
    world.connected.clear()
    await world.clock.run_for(58_000)
    assert text in world.renewals
    await world.clock.run_for(7_000)
    assert world.brokers.asked == [] and text not in world.renewals


async def test_what_a_client_leaves_behind_comes_again_soon(world: World) -> None:
    world.hold(1, 2)
    world.hold(3, client="other")
    await world.clock.run_for(55_000)  # renewed once
    world.hold(4)
    world.brokers.asked.clear()
    world.renewals.client_left("c")
    await world.clock.run_for(1_000)
    assert sorted(world.brokers.asked) == [(1, 1000), (2, 1000), (4, 1000)]
    assert len(world.renewals) == 1


async def test_above_the_limit_a_message_is_not_kept_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    world = World(held_max=2)
    async with world.renewals:
        texts = world.hold(1, 2, 3)
        assert [text in world.renewals for text in texts] == [True, True, False]
    assert "comes again after 60 s: this proxy keeps 2 already" in caplog.text
