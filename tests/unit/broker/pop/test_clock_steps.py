"""Pops at a broker whose wall clock is set back or forth: what was acknowledged in time never comes again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.broker.config import BrokerConfig
from rocketlake.broker.pop.revive_log import REVIVE_QUEUES
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.headers.pop import NotificationHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.config import StoreConfig
from rocketlake.testing.dying_broker import HOST, DyingBroker
from rocketlake.testing.virtual_time import run_virtual
from tests.pops import PopClient
from tests.requests import send_header

MINUTE_MS = 60_000
INVISIBLE_MS = 5000


class World:
    """A broker with topic T of one queue, and a client."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._net = MemoryNet(clock=self.clock)
        store = StoreConfig(commit_log_file_bytes=256 * 1024, index_slots=10, index_entries=100)
        config = BrokerConfig(
            broker_name="b", listen_host=HOST, listen_port=10911, fast_listen_port=0, store_root=Path("/store")
        )
        self._node = DyingBroker(config, store, self._net, self.clock, random.Random(0))
        net = NetClient(None, self.clock, {}, network=self._net.host("10.0.1.1"))
        self.client = PopClient(f"{HOST}:10911", net=net)
        self.client.clock = self.clock  # type: ignore[assignment]

    def play(self, test: Callable[[], Awaitable[None]]) -> None:
        """Run it in the time of the clock."""

        async def run() -> None:
            broker = await self._node.start()
            broker.topics.put(TopicConfig("T", read_queues=1, write_queues=1))
            await test()
            await self.client.net.close()
            await self._node.close()

        run_virtual(run(), self.clock)

    async def restart(self) -> None:
        await self._node.stop()
        await self._node.start()

    async def crash(self) -> None:
        """The process dies now, and a new one starts on its disk."""
        await self._node.die(1 << 60, 0, 0.0, power=False)
        self.client.net.give_up(self.client.address, "its peer is dead")
        await self._node.start()

    async def send(self, *bodies: str) -> None:
        for body in bodies:
            assert (await self.client.ask(RequestCode.SEND_MESSAGE_V2, send_header("T", 0), body.encode())).code == 0

    async def look(self, poll_ms: int, born_time: int = 0) -> None:
        """Wait until there is a message to pop."""
        header = NotificationHeader(
            consumer_group="g", topic="T", queue_id=-1, poll_time=poll_ms, born_time=born_time or self.clock.now_ms()
        )
        assert (await self.client.ask(RequestCode.NOTIFICATION, header)).code == 0

    async def pop_and_ack(self, *, keep: str = "") -> list[str]:
        """What a pop hands out; it is acknowledged, but for the one to keep."""
        found = await self.client.pop(INVISIBLE_MS)
        for each in found:
            if each.body != keep:
                assert (await self.client.ack(each)).code == 0
        return [each.body for each in found]


@pytest.mark.parametrize("step_ms", [-10 * MINUTE_MS, -3000, 10 * MINUTE_MS])
def test_what_is_acknowledged_never_comes_again_after_a_step(step_ms: int) -> None:
    world = World()

    async def test() -> None:
        for number in range(REVIVE_QUEUES):  # each of them is read up to a time before the step
            await world.send(f"before {number}")
            assert await world.pop_and_ack() == [f"before {number}"]
        await world.clock.sleep(2 * INVISIBLE_MS / 1000)
        world.clock.jump_wall(step_ms)
        await world.clock.sleep(3)
        await world.send("a", "b", "c")
        assert await world.pop_and_ack(keep="b") == ["a", "b", "c"]
        await world.clock.sleep(4 * INVISIBLE_MS / 1000)
        assert await world.pop_and_ack() == ["b"], "it comes again, and no other"
        await world.clock.sleep(12 * 60)
        assert await world.pop_and_ack() == []

    world.play(test)


@pytest.mark.parametrize("step_ms", [-10 * MINUTE_MS, 10 * MINUTE_MS])
def test_no_pop_waits_longer_than_its_consumer(step_ms: int) -> None:
    """One that waits on has no consumer any more: what it gets would be hidden until its time is over."""
    world = World()

    async def test() -> None:
        began = world.clock.monotonic()
        waiting = [asyncio.create_task(world.client.pop(poll_ms=10_000, queue_id=queue)) for queue in (-1, 0)]
        looking = asyncio.create_task(world.look(poll_ms=10_000))
        await world.clock.sleep(2)
        world.clock.jump_wall(step_ms)
        await world.send("a")  # wakes both: one finds nothing, and waits on
        assert sum([len(found) for found in await asyncio.gather(*waiting)]) == 1
        await looking
        assert world.clock.monotonic() - began < 10.1

    world.play(test)


def test_a_consumer_whose_clock_is_ahead_waits_no_longer() -> None:
    world = World()

    async def test() -> None:
        born_ms = world.clock.now_ms() + 10 * MINUTE_MS
        began = world.clock.monotonic()
        assert await world.client.pop(poll_ms=1000, born_time=born_ms) == []
        await world.look(poll_ms=1000, born_time=born_ms)
        assert world.clock.monotonic() - began < 2.2

    world.play(test)


@pytest.mark.parametrize(("step_ms", "comes_after_ms"), [(-10 * MINUTE_MS, 10 * MINUTE_MS), (10 * MINUTE_MS, 0)])
def test_what_is_in_flight_at_a_step_comes_again_by_the_new_time(step_ms: int, comes_after_ms: int) -> None:
    """What was acknowledged before the step does not."""
    world = World()

    async def test() -> None:
        await world.send("a", "b")
        assert await world.pop_and_ack(keep="b") == ["a", "b"]
        world.clock.jump_wall(step_ms)
        came_ms = 0.0
        while not (found := await world.pop_and_ack()):
            await world.clock.sleep(1)
            came_ms += 1000
        assert found == ["b"]
        assert comes_after_ms <= came_ms <= comes_after_ms + 2 * INVISIBLE_MS

    world.play(test)
