"""Two hundred keys while members of an ordered group join and leave every second, on one virtual time, from one seed.

What the documents promise of each key: its messages are seen in the order in which they were sent, none is passed over.
A message may be seen again (the listener failed, its queue went to another member before its offset was saved); then
those behind it come again, too, in order. Two members never have a key at the same time.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.client.config import ClientConfig, ConsumerConfig, FirstOffset, ProducerConfig
from rocketlake.client.consumer.listener import ConsumeResult
from rocketlake.client.consumer.push import PushConsumer
from rocketlake.client.instance import ClientInstance
from rocketlake.client.producer.producer import Producer
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.topic import TopicConfig
from rocketlake.net.memory_net import MemoryHost
from rocketlake.testing.nodes import BrokerNode, NameServerNode, World
from rocketlake.testing.plan import Plan
from rocketlake.testing.virtual_time import run_virtual
from tests.key_order import KeyOrder
from tests.seeds import seeds

KEYS, MESSAGES, CHANGES = 200, 12, 25
LOCK_LIFE_SECONDS = 60
CONFIG = ClientConfig(route_interval_ms=2000, heartbeat_interval_ms=2000)


class Member:
    """One consumer, a process of its own."""

    def __init__(self, run: Run, number: int) -> None:
        self.run = run
        self.host = f"10.0.9.{number + 1}"
        self.network: MemoryHost = run.world.net.host(self.host)
        config = replace(CONFIG, namesrv=run.name_server.address, client_ip=self.host)
        self.instance = ClientInstance(config, clock=run.clock, network=self.network)
        self.consumer = PushConsumer(
            "readers",
            listener=self.listen,
            orderly=True,
            from_where=FirstOffset.FIRST,
            instance=self.instance,
            config=ConsumerConfig(
                batch_size=run.random.choice((1, 4)), suspend_ms=100, rebalance_interval_ms=2000, lock_interval_ms=5000
            ),
        )
        self.consumer.subscribe("T")
        self.is_dead = False

    async def start(self) -> None:
        await self.instance.start()
        await self.consumer.start()

    async def stop(self) -> None:
        await self.consumer.stop()
        await self.instance.stop()

    def kill(self) -> None:
        """kill -9: what its listener has in hand is never finished, its locks stay until they expire."""
        self.is_dead = True
        self.network.crash()
        self.run.order.gone(self.host)
        self.run.world.bury(self.stop())

    async def listen(self, messages: list[StoredMessage]) -> ConsumeResult | None:
        run = self.run
        for message in messages:
            if self.is_dead:
                return ConsumeResult.LATER
            key, number = map(int, message.body.split())
            run.order.begin(self.host, key, number)
            await run.clock.sleep(run.random.uniform(0, 0.02))
            run.order.end(self.host, key)
        return ConsumeResult.LATER if run.random.random() < 0.02 else None


class Run:
    """One run: brokers, a producer, members that come and go, what they saw of each key."""

    def __init__(self, seed: int, clock: ManualClock) -> None:
        self.seed, self.clock = seed, clock
        self.random = random.Random(f"keys {seed}")
        self.world = World(Plan.of(seed), clock)
        self.name_server = NameServerNode(self.world, 0)
        self.brokers = [BrokerNode(self.world, number, (self.name_server.address,)) for number in range(2)]
        self.order = KeyOrder(KEYS)
        self._numbers = iter(range(250))

    async def live(self) -> None:
        for node in (self.name_server, *self.brokers):
            await node.start()
        for node in self.brokers:
            assert node.broker is not None
            node.broker.topics.put(TopicConfig("T", read_queues=4, write_queues=4))
            await node.broker.cluster.registration.register()
        config = replace(CONFIG, namesrv=self.name_server.address, client_ip="10.0.8.1")
        instance = ClientInstance(config, clock=self.clock, network=self.world.net.host("10.0.8.1"))
        await instance.start()
        sends = ProducerConfig(auto_batch=self.seed % 2 == 0)
        async with Producer("p", instance=instance, config=sends) as producer:
            sending = [asyncio.ensure_future(self.send(producer, key)) for key in range(KEYS)]
            members = [await self.joined()]
            for _ in range(CHANGES):
                await self.clock.sleep(self.random.uniform(0.5, 1.5))
                members = await self.changed(members)
            await asyncio.gather(*sending)
            await self.all_seen(2 * LOCK_LIFE_SECONDS)
        await instance.stop()
        for member in members:
            await member.stop()
        for node in self.brokers:
            await node.stop()
        await self.name_server.stop()
        await self.world.all_ended()

    async def send(self, producer: Producer, key: int) -> None:
        for number in range(MESSAGES):
            await producer.send(Message("T", b"%d %d" % (key, number)), key=key, timeout_ms=20_000)
            await self.clock.sleep(self.random.uniform(0, 2 * CHANGES / MESSAGES))

    async def joined(self) -> Member:
        member = Member(self, next(self._numbers))
        await member.start()
        return member

    async def changed(self, members: list[Member]) -> list[Member]:
        """One member more, or one less."""
        if len(members) < 2 or (len(members) < 5 and self.random.random() < 0.5):
            return [*members, await self.joined()]
        leaving = members.pop(self.random.randrange(len(members)))
        if self.random.random() < 0.1:
            leaving.kill()
        else:
            await leaving.stop()
        return members

    async def all_seen(self, seconds: float) -> None:
        until = self.clock.monotonic() + seconds
        while not self.order.are_seen(MESSAGES) and self.clock.monotonic() < until:
            await self.clock.sleep(1)


@pytest.mark.parametrize("seed", seeds("key order", short=2, whole=20))
def test_each_key_is_seen_in_order_while_members_come_and_go(seed: int) -> None:
    clock = ManualClock()
    before = random.getstate()
    random.seed(seed)
    try:
        run = Run(seed, clock)
        run_virtual(run.live(), clock)
    finally:
        random.setstate(before)
    assert run.order.problems == []
    assert set(run.order.last.values()) == {MESSAGES - 1}, "each key is seen to its end"
    assert run.order.repeats > 0, "the run has shown repeats"
