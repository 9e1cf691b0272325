"""Requests under faults, on one virtual time and from one seed: links break, brokers die, answers come twice.

Each request ends once: with its own answer, or with an error that says why there is none. When the faults are over,
requests are answered again.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.broker.config import BrokerRole
from rocketlake.client.calls.reply import reply_to
from rocketlake.client.config import ClientConfig, ConsumerConfig, FirstOffset
from rocketlake.client.consumer.push import PushConsumer
from rocketlake.client.errors import NoReply
from rocketlake.client.instance import ClientInstance
from rocketlake.client.producer.producer import Producer
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.topic import TopicConfig
from rocketlake.net.memory_net import MemoryHost, MemoryNet
from rocketlake.testing.nodes import BrokerNode, NameServerNode, World
from rocketlake.testing.plan import Plan
from rocketlake.testing.virtual_time import run_virtual
from tests.replica_pair import MASTER, NAMESRV, ReplicaPair
from tests.seeds import seeds

SECONDS = 20.0
TIMEOUT_MS = 4000
SLACK_SECONDS = 6.0
"""A name server that does not answer costs a send some seconds more than its time."""
CONFIG = ClientConfig(route_interval_ms=5000, heartbeat_interval_ms=10_000)


class Clients:
    """Producers that ask, members of a group that answer, and what became of each request."""

    def __init__(self, net: MemoryNet, clock: ManualClock, namesrv: str, seed: int) -> None:
        self.net, self.clock, self.namesrv = net, clock, namesrv
        self.random = random.Random(f"requests {seed}")
        self.ends: Counter[str] = Counter()
        self.problems: list[str] = []
        self.askers: list[Producer] = []
        self.answerers: list[tuple[PushConsumer, Producer]] = []
        self.hosts: dict[str, MemoryHost] = {}
        self.answer_seconds = 0.0, 0.2
        """An answer takes so long: at least, at most."""
        self.is_over = False

    def client(self) -> ClientInstance:
        host = f"10.0.9.{len(self.hosts) + 1}"
        self.hosts[host] = self.net.host(host)
        config = replace(CONFIG, namesrv=self.namesrv, client_ip=host)
        return ClientInstance(config, clock=self.clock, network=self.hosts[host])

    async def asker(self) -> None:
        instance = self.client()
        await instance.start()
        self.askers.append(Producer("asks", instance=instance))
        await self.askers[-1].start()

    async def answerer(self) -> None:
        instance = self.client()
        await instance.start()
        producer = Producer("answers", instance=instance)

        async def answer(request: StoredMessage) -> bytes:
            body = b"re: " + request.body
            await self.clock.sleep(self.random.uniform(*self.answer_seconds))
            if self.random.random() < 0.2:  # twice
                try:
                    await producer.send(reply_to(request, body))
                except RocketLakeError:
                    self.ends["first of two answers lost"] += 1
            return body

        consumer = PushConsumer(
            "answers",
            listener=producer.replier(answer),
            from_where=FirstOffset.FIRST,
            instance=instance,
            config=ConsumerConfig(rebalance_interval_ms=2000),
        )
        consumer.subscribe("T")
        self.answerers.append((consumer, producer))
        await producer.start()
        await consumer.start()

    async def ask(self, producer: Producer, question: bytes) -> bool:
        """True for the right answer."""
        begun = self.clock.monotonic()
        try:
            answer = await producer.request(Message("T", question), timeout_ms=TIMEOUT_MS)
        except NoReply:
            self.ends["no reply"] += 1
        except RocketLakeError as error:
            self.ends[type(error).__name__] += 1
        else:
            self.ends["answered"] += 1
            if answer.body != b"re: " + question:
                self.problems.append(f"{question!r} was answered with {answer.body!r}")
            return True
        took = self.clock.monotonic() - begun
        if took > TIMEOUT_MS / 1000 + SLACK_SECONDS:
            self.problems.append(f"{question!r} took {took} s")
        return False

    async def keep_asking(self, producer: Producer, name: str) -> None:
        """Some requests at once, always."""
        number, flying = 0, set[asyncio.Task[bool]]()
        while not self.is_over:
            flying.add(asyncio.ensure_future(self.ask(producer, f"{name} {number}".encode())))
            number += 1
            if len(flying) >= 4:
                _, flying = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
            await self.clock.sleep(self.random.uniform(0, 0.1))
        await asyncio.gather(*flying)

    async def are_answered_again(self, seconds: float) -> None:
        """Each asker gets an answer within so long."""
        until = self.clock.monotonic() + seconds
        for number, producer in enumerate(self.askers):
            while not await self.ask(producer, b"last of %d" % number):
                if self.clock.monotonic() > until:
                    self.problems.append(f"asker {number} gets no answer any more")
                    return

    async def stop(self) -> None:
        for producer in self.askers:
            if producer._requests._open:
                self.problems.append("requests are left open")
            await producer.stop()
            await producer.instance.stop()
        for consumer, producer in self.answerers:
            await consumer.stop()
            await producer.stop()
            await consumer.instance.stop()


async def under_faults(seed: int, clock: ManualClock) -> Clients:
    world = World(Plan.of(seed), clock)
    name_server = NameServerNode(world, 0)
    brokers = [BrokerNode(world, number, (name_server.address,)) for number in range(2)]
    for node in (name_server, *brokers):
        await node.start()
    clients = Clients(world.net, clock, name_server.address, seed)
    for _ in range(2):
        await clients.asker()
        await clients.answerer()
    asking = [
        asyncio.ensure_future(clients.keep_asking(producer, f"question {number}"))
        for number, producer in enumerate(clients.askers)
    ]
    chance = clients.random
    until = clock.monotonic() + SECONDS
    while clock.monotonic() < until:
        await clock.sleep(chance.uniform(0.5, 3))
        kind, node = chance.choice(("cut", "part", "kill", "restart")), chance.choice(brokers)
        if kind == "cut":
            world.net.cut_chance = 0.05
        elif kind == "part":
            world.net.partition(node.host, chance.choice(list(clients.hosts)))
        elif kind == "kill":
            node.kill()
        else:
            await node.stop()
        await clock.sleep(chance.uniform(0.2, 3))
        world.net.cut_chance = 0.0
        world.net.heal()
        if node.broker is None:
            await node.start()
    clients.is_over = True
    await asyncio.gather(*asking)
    await clients.are_answered_again(60)
    await clients.stop()
    for each in brokers:
        await each.stop()
    await name_server.stop()
    await world.all_ended()
    return clients


@pytest.mark.parametrize("seed", seeds("requests", short=4, whole=20))
def test_each_request_ends_once_with_its_own_answer_or_an_error(seed: int) -> None:
    clock = ManualClock()
    before = random.getstate()
    random.seed(seed)
    try:
        clients = run_virtual(under_faults(seed, clock), clock)
    finally:
        random.setstate(before)
    assert clients.problems == []
    assert clients.ends["answered"] > 50, clients.ends


@pytest.fixture
def pair() -> ReplicaPair:
    pair = ReplicaPair()
    pair.master = pair.new_broker(MASTER, 0, broker_role=BrokerRole.SYNC_MASTER)
    return pair


async def one_asker(pair: ReplicaPair) -> Clients:
    await pair.start()
    pair.master.topics.put(TopicConfig("T", read_queues=2, write_queues=2))
    await pair.master.cluster.registration.register()
    await pair.clock.sleep(2)
    clients = Clients(pair.net, pair.clock, f"{NAMESRV}:9876", 0)
    await clients.asker()
    await clients.answerer()
    await clients.are_answered_again(60)
    return clients


def test_after_a_change_of_the_master_the_new_one_hands_answers_on(pair: ReplicaPair) -> None:
    async def run() -> Clients:
        clients = await one_asker(pair)
        pair.hosts[MASTER].crash()
        await pair.clock.sleep(0.5)
        await pair.slave.become_master()
        await clients.are_answered_again(15)
        await clients.stop()
        await pair.stop()
        return clients

    assert run_virtual(run(), pair.clock).problems == []


def test_an_asker_whose_link_breaks_while_it_waits_is_known_again(pair: ReplicaPair) -> None:
    async def run() -> bool:
        clients = await one_asker(pair)
        clients.answer_seconds = 3.0, 3.0
        asked = asyncio.ensure_future(clients.ask(clients.askers[0], b"a hard question"))
        await pair.clock.sleep(0.5)
        for transport in tuple(clients.hosts["10.0.9.1"].transports):
            transport.abort()
        is_answered = await asked
        await clients.stop()
        await pair.stop()
        return is_answered

    assert run_virtual(run(), pair.clock)
