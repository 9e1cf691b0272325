"""A real group loses its master while 100,000 popped messages are in flight: each comes again, or was acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from rocketlake import Message, Producer
from rocketlake.base.errors import RocketLakeError
from rocketlake.client.calls import pop as pops
from rocketlake.client.config import ClientConfig
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.pop import ANY_QUEUE, PopHandle
from rocketlake.model.subscription import Subscription
from rocketlake.net.client import NetClient
from tests.crash.group_processes import NAME, GroupProcesses, settled

COUNT = 100_000
TOPIC, GROUP = "InFlight", "takers"
WORKERS = 16
INVISIBLE_MS = 90_000
MARGIN_MS = 2_000
"""An acknowledgement that is answered so much before the end of its time counts as one in time."""
PART = COUNT // 10

Held = dict[int, PopHandle]
"""Number of a message -> its handle."""


class Takers:
    """Pops at one broker, and what came of all pops."""

    def __init__(self, net: NetClient) -> None:
        self._net = net
        self.came: Counter[int] = Counter()
        self.acked: set[int] = set()
        """Acknowledged in time."""
        self.again: list[int] = []
        """Came though acknowledged in time."""

    async def pop(self, address: str) -> Held:
        """One pop; none if there is none."""
        answer = await pops.pop(
            self._net,
            address,
            MessageQueue(TOPIC, NAME, ANY_QUEUE),
            group=GROUP,
            subscription=Subscription(TOPIC, "*"),
            max_messages=pops.POP_MAX,
            invisible_ms=INVISIBLE_MS,
            poll_ms=500,
            from_first=True,
        )
        found = {int(message.body): pops.handle_of(message) for message in answer.messages}
        assert len(found) == len(answer.messages), "one answer has a message twice"
        self.came.update(found.keys())
        self.again += found.keys() & self.acked
        return found

    async def ack(self, address: str, held: Held) -> None:
        """All in one request."""
        await pops.ack_all(self._net, address, GROUP, [(TOPIC, handle) for handle in held.values()], 10_000)
        end_ms = min(handle.pop_ms + handle.invisible_ms for handle in held.values())
        if time.time() * 1000 < end_ms - MARGIN_MS:
            self.acked |= held.keys()

    async def hold(self, address: str, count: int) -> Held:
        """Pop until so many are in flight."""
        held: Held = {}

        async def work() -> None:
            while len(held) < count:
                held.update(await self.pop(address))

        await asyncio.gather(*(work() for _ in range(WORKERS)))
        return held

    async def take_the_rest(self, address: str) -> None:
        """Pop and acknowledge until each message was acknowledged once."""

        async def work() -> None:
            while len(self.acked) < COUNT:
                if held := await self.pop(address):
                    await self.ack(address, held)

        await asyncio.gather(*(work() for _ in range(WORKERS)))


async def ack_parts(takers: Takers, address: str, held: Held, numbers: range) -> None:
    for first in numbers[::100]:
        await takers.ack(address, {number: held[number] for number in range(first, min(first + 100, numbers.stop))})


@pytest.mark.crash
async def test_what_is_in_flight_comes_again_at_the_new_master(tmp_path: Path) -> None:
    group = GroupProcesses(tmp_path)
    net = NetClient()
    try:
        await group.start()
        master = await group.settled()
        await fill(";".join(each.address for each in group.controllers))
        takers = Takers(net)
        held = await takers.hold(master.address, COUNT)
        assert sorted(held) == list(range(COUNT)), "all are in flight, each once"
        assert set(takers.came.values()) == {1}

        await ack_parts(takers, master.address, held, range(PART))
        group.kill(master)
        address = await settled(net, group.controllers[0].address, NAME, 2)
        assert address != master.address
        new = group.named(address)
        await until_it_serves(takers, new.address, held[PART])
        await ack_parts(takers, new.address, held, range(PART, 2 * PART))  # handles of the old master
        assert len(takers.acked) == 2 * PART, "this machine is too slow for this test: raise INVISIBLE_MS"

        async with asyncio.timeout(400):
            await takers.take_the_rest(new.address)
        assert takers.again == []
        doubled = {number: count for number, count in takers.came.items() if number >= 2 * PART and count > 2}
        print(f"{COUNT} in flight, {2 * PART} acknowledged around the change, {len(doubled)} came more than once again")
        assert len(takers.came) == COUNT
        assert doubled == {}
    finally:
        await net.close()
        await group.stop()


async def fill(namesrv: str) -> None:
    async with Producer("filler", client_config=ClientConfig(namesrv=namesrv)) as producer:
        for first in range(0, COUNT, 1000):
            await producer.send_batch([Message(TOPIC, b"%d" % number) for number in range(first, first + 1000)])


async def until_it_serves(takers: Takers, address: str, handle: PopHandle) -> None:
    """The new master takes an acknowledgement: one that is repeated does no harm."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await pops.ack_all(takers._net, address, GROUP, [(TOPIC, handle)])
            except RocketLakeError:
                await asyncio.sleep(0.1)
