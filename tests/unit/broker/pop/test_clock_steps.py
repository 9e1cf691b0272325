"""Pops at a broker whose wall clock is set back or forth: what was acknowledged in time never comes again."""

from __future__ import annotations

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

    async def send(self, *bodies: str) -> None:
        for body in bodies:
            assert (await self.client.ask(RequestCode.SEND_MESSAGE_V2, send_header("T", 0), body.encode())).code == 0

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
