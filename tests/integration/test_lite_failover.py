"""Lite topics survive the master: the new one has each message once, in order, and what was acknowledged stays so."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from rocketlake import ClientConfig, LiteSimpleConsumer
from rocketlake.base.errors import LinkError
from rocketlake.broker.lite.light_queues import LightQueues
from rocketlake.broker.lite.lite_messages import Said
from rocketlake.client.instance import ClientInstance
from rocketlake.model.lite import Place
from rocketlake.protocol.bodies.group import GroupEntry
from rocketlake.protocol.bodies.lite import LiteAction
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from tests.lites import PARENT, LiteClient, PoppedLite
from tests.replica_group import NAMESRV, ReplicaGroup
from tests.seeds import drawn

_T = TypeVar("_T")

LITES = ("a", "b", "c")
COUNT = 30
SOON_MS = 3_000


class LiteGroup:
    """A group of brokers with a parent of lite topics, and a client of its master, on virtual time."""

    def __init__(self, group: ReplicaGroup) -> None:
        self.group = group
        self.client = LiteClient("", net=group.client)
        self.client.clock = group.clock  # type: ignore[assignment]
        self.got: defaultdict[str, list[int]] = defaultdict(list)
        """Lite topic -> its messages in the order in which they came first."""
        self.acked: set[int] = set()

    async def through(self, call: Coroutine[Any, Any, _T]) -> _T:
        self.client.address = f"{self.group.master}:10911"
        task = asyncio.ensure_future(call)
        while not task.done():
            await self.group.clock.run_for(20)
        return task.result()

    async def put_topic(self, attributes: str) -> None:
        header = CreateTopicHeader(
            topic=PARENT,
            default_topic="TBW102",
            read_queue_nums=2,
            write_queue_nums=2,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            attributes=attributes,
        )
        assert (await self.through(self.client.ask(Code.UPDATE_AND_CREATE_TOPIC, header))).code == 0

    async def make(self, **attributes: str) -> None:
        await self.put_topic("+message.type=LITE")
        body = GroupEntry(group_name="g", attributes={"+lite.bind.topic": PARENT, **attributes}).encode()
        assert (await self.through(self.client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))).code == 0
        await self.subscribe()

    async def subscribe(self) -> None:
        answer = await self.through(self.client.change_set(LiteAction.COMPLETE_ADD, *LITES))
        assert answer.code == 0, answer.remark

    async def send(self, number: int) -> bool:
        """True if it is acknowledged."""
        try:
            answer = await self.through(self.client.put(LITES[number % len(LITES)], str(number)))
        except LinkError:
            return False
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY), answer.remark
        return answer.code == ResponseCode.SUCCESS

    async def send_all(self, *numbers: int) -> None:
        for number in numbers:
            async with asyncio.timeout(60):
                while not await self.send(number):
                    await self.group.clock.run_for(50)

    async def pop(self, count: int = 32, invisible_ms: int = SOON_MS) -> list[PoppedLite]:
        """Notes what came for the first time. None may have been acknowledged before."""
        popped = await self.through(self.client.pop_lite(invisible_ms, poll_ms=2000, count=count))
        for each in popped:
            number = int(each.body)
            assert number not in self.acked, f"{number} comes again though it was acknowledged"
            if number not in self.got[each.lite]:
                self.got[each.lite].append(number)
        return popped

    async def ack(self, popped: PoppedLite) -> None:
        answer = await self.through(self.client.ack_lite(popped))
        assert answer.code == 0, answer.remark
        self.acked.add(int(popped.body))

    async def ack_some(self) -> None:
        """Acknowledge the first half of each lite topic, and wait until the slaves know it."""
        popped: list[PoppedLite] = []
        while {each.lite for each in popped} < set(LITES):
            popped += await self.pop()
        for lite in LITES:
            of_lite = [each for each in popped if each.lite == lite]
            for each in of_lite[: len(of_lite) // 2]:
                await self.ack(each)
        await self.group.clock.run_for(1500)

    async def take_all(self, numbers: set[int]) -> None:
        """Pop and acknowledge until all have been."""
        for _ in range(100):
            if self.acked >= numbers:
                return
            for popped in await self.pop():
                await self.ack(popped)
        raise AssertionError(f"lost: {sorted(numbers - self.acked)}")

    async def lose_the_master(self) -> str:
        old = self.group.master
        self.group.crash(old)
        await self.group.until(lambda: bool(self.group.masters) and old not in self.group.masters, 30_000)
        return old

    def check_order(self) -> None:
        for lite, numbers in self.got.items():
            assert numbers == sorted(numbers), lite


KINDS = {"shared": {}, "exclusive": {"+lite.sub.model": "Exclusive"}, "wildcard": {"+lite.sub.wildcard": "true"}}


@pytest.fixture(params=KINDS)
async def lites(request: pytest.FixtureRequest) -> AsyncIterator[LiteGroup]:
    group = ReplicaGroup(3)
    await group.start()
    lites = LiteGroup(group)
    await lites.make(**KINDS[request.param])
    yield lites
    await group.stop()


async def test_messages_from_before_are_read_after_it_in_their_order(lites: LiteGroup) -> None:
    await lites.send_all(*range(COUNT))
    await lites.lose_the_master()
    await lites.subscribe()
    await lites.send_all(*range(COUNT, 2 * COUNT))
    await lites.take_all(set(range(2 * COUNT)))
    lites.check_order()
    assert await lites.pop() == []


async def test_a_new_master_has_read_the_log_before(lites: LiteGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a slave: else lite topics would stand still while it reads a log of millions of them."""
    await lites.send_all(*range(COUNT))
    await lites.group.clock.run_for(1500)
    noted = Counter[LightQueues]()
    note = LightQueues._note

    def watch(self: LightQueues, parent: str, said: Said, place: Place) -> None:
        noted[self] += 1
        note(self, parent, said, place)

    monkeypatch.setattr(LightQueues, "_note", watch)
    await lites.lose_the_master()
    await lites.subscribe()
    await lites.send_all(*range(COUNT, 2 * COUNT))
    master = lites.group.brokers[lites.group.master]
    assert not noted[master.lite.queues]
    await lites.take_all(set(range(2 * COUNT)))
    lites.check_order()
    await lites.group.clock.run_for(1500)
    others = {lites.group.brokers[host].lite.queues for host in lites.group.brokers} - {master.lite.queues}
    assert any(noted[queues] >= COUNT for queues in others), "the other slave reads on"


async def test_what_was_acknowledged_does_not_come_again_and_the_rest_does(lites: LiteGroup) -> None:
    await lites.send_all(*range(COUNT))
    await lites.ack_some()
    assert len(lites.acked) == COUNT // 2
    await lites.lose_the_master()
    await lites.subscribe()
    await lites.take_all(set(range(COUNT)))
    lites.check_order()
    assert await lites.pop() == []


async def test_acknowledgements_that_no_slave_knows_yet_cost_no_message(lites: LiteGroup) -> None:
    """These messages come again, in their order (docs/internals/limits.md)."""
    await lites.send_all(*range(COUNT))
    for each in await lites.pop(COUNT):
        await lites.ack(each)
    lites.acked.clear()
    await lites.lose_the_master()
    await lites.subscribe()
    await lites.send_all(*range(COUNT, COUNT + 3))
    new = set(range(COUNT, COUNT + 3))
    while not lites.acked >= new:
        popped = await lites.pop()
        for lite in LITES:
            numbers = [int(each.body) for each in popped if each.lite == lite]
            assert numbers == sorted(numbers)
        for each in popped:
            await lites.ack(each)
    lites.check_order()


async def test_master_after_master_is_lost(lites: LiteGroup) -> None:
    """Each time some messages are sent, and some acknowledged; who was the master before comes back as a slave."""
    sent = 0
    for _ in range(4):
        await lites.send_all(*range(sent, sent + COUNT))
        sent += COUNT
        await lites.ack_some()
        old = await lites.lose_the_master()
        await lites.group.begin_again(old)
        await lites.group.until(lambda: lites.group.in_step == {1, 2, 3}, 30_000)
        await lites.subscribe()
    await lites.take_all(set(range(sent)))
    lites.check_order()


async def test_nothing_is_lost_of_what_is_sent_and_taken_while_masters_change(lites: LiteGroup) -> None:
    (seed,) = drawn("lite topics over a change of the master", 1)
    moments = random.Random(seed)
    group, load = lites.group, Load(lites)
    tasks = [asyncio.ensure_future(load.send(lite)) for lite in LITES]
    tasks.append(asyncio.ensure_future(load.take(moments)))
    for _ in range(2):
        await group.clock.run_for(moments.randrange(300, 1500))
        old = group.master
        group.crash(old)
        await group.until(lambda old=old: bool(group.masters) and old not in group.masters, 30_000)
        await group.clock.run_for(moments.randrange(1000))
        await group.begin_again(old)
        await group.until(lambda: group.in_step == {1, 2, 3}, 30_000)
    load.is_over = True
    await group.until(lambda: all(task.done() for task in tasks), 120_000)
    for task in tasks:
        task.result()
    assert len(load.sent) > 50, "the load must really have run"
    for lite, numbers in load.got.items():
        assert numbers == sorted(numbers), f"seed {seed}: {lite}"


class Load:
    """Sends and takes at whatever master there is."""

    def __init__(self, lites: LiteGroup) -> None:
        self.group = lites.group
        self.is_over = False
        self.sent: set[tuple[str, int]] = set()
        self.taken: set[tuple[str, int]] = set()
        self.got: defaultdict[str, list[int]] = defaultdict(list)

    def _client(self) -> LiteClient | None:
        if not self.group.masters:
            return None
        client = LiteClient(f"{self.group.masters[-1]}:10911", net=self.group.client)
        client.clock = self.group.clock  # type: ignore[assignment]
        return client

    async def send(self, lite: str) -> None:
        """One message behind the other; one without an answer is sent again."""
        number = 0
        while not self.is_over:
            client = self._client()
            with suppress(LinkError):
                if client is not None and (await client.put(lite, str(number))).code == 0:
                    self.sent.add((lite, number))
                    number += 1
            await self.group.clock.sleep(0.02)

    async def take(self, moments: random.Random) -> None:
        """Until all is taken that was sent. One in ten messages is not acknowledged at once."""
        while not (self.is_over and self.taken >= self.sent):
            client = self._client()
            if client is not None:
                with suppress(LinkError):
                    await self._take(client, moments)
            await self.group.clock.sleep(0.02)

    async def _take(self, client: LiteClient, moments: random.Random) -> None:
        if (await client.change_set(LiteAction.COMPLETE_ADD, *LITES)).code:
            return  # no master yet
        header = client.lite_pop_header(500, 200, 8)
        answer = await client.ask(Code.POP_LITE_MESSAGE, header)
        for popped in client.popped_lites(answer) if answer.code == 0 else ():
            number = int(popped.body)
            if number not in self.got[popped.lite]:
                self.got[popped.lite].append(number)
            if moments.randrange(10) and (await client.ack_lite(popped)).code == 0:
                self.taken.add((popped.lite, number))


@pytest.mark.parametrize("lites", ["shared", "exclusive"], indirect=True)
async def test_our_own_consumer_goes_over_to_the_new_master(lites: LiteGroup) -> None:
    group = lites.group
    consumer = await our_consumer(lites)
    await lites.through(consumer.subscribe_lite("a", "b"))
    await lites.send_all(*range(9))
    first = await lites.through(receive(consumer, 6))
    assert first == {"a": [0, 3, 6], "b": [1, 4, 7]}
    await group.clock.run_for(1500)
    await lites.lose_the_master()
    await lites.through(consumer.subscribe_lite("c"))
    await lites.send_all(9, 10, 11)
    began = group.clock.monotonic()
    assert await lites.through(receive(consumer, 6)) == {"a": [9], "b": [10], "c": [2, 5, 8, 11]}
    assert group.clock.monotonic() - began < 5, "it is told before the next pop, not after half a minute"
    await leave(lites, consumer)
    assert not group.brokers[group.master].lite.subscriptions.find(consumer.instance.client_id, "g")


async def our_consumer(lites: LiteGroup) -> LiteSimpleConsumer:
    """Our own client on the clock and the network of the group."""
    config = ClientConfig(namesrv=f"{NAMESRV}:9876", client_ip="10.0.0.78")
    instance = ClientInstance(config, clock=lites.group.clock, network=lites.group.net.host("10.0.0.78"))
    await lites.through(instance.start())
    consumer = LiteSimpleConsumer("g", PARENT, instance=instance)
    await lites.through(consumer.start())
    return consumer


async def leave(lites: LiteGroup, consumer: LiteSimpleConsumer) -> None:
    await lites.through(consumer.stop())
    await lites.through(consumer.instance.stop())


async def receive(consumer: LiteSimpleConsumer, count: int) -> dict[str, list[int]]:
    """So many messages, acknowledged."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    while sum(map(len, found.values())) < count:
        for message in await consumer.receive(await_ms=20_000):
            found[message.lite_topic or ""].append(int(message.body))
            await consumer.ack(message)
    return found


@pytest.mark.parametrize("lites", ["shared"], indirect=True)
async def test_our_own_consumer_waits_out_a_master_that_becomes_a_slave(lites: LiteGroup) -> None:
    """The old master goes on as a slave, which refuses its pops: the new one is found while the receive lasts."""
    group = lites.group
    consumer = await our_consumer(lites)
    await lites.through(consumer.subscribe_lite("a"))
    waiting = asyncio.ensure_future(receive(consumer, 2))
    await group.clock.run_for(1000)
    old = group.master
    membership = group.brokers[old].membership
    assert membership is not None
    other = next(number for number in (1, 2, 3) if group.hosts[number - 1] != old)
    await group.run_through(asyncio.ensure_future(membership._calls.elect(other, designated=True)))
    await group.until(lambda: bool(group.masters) and old not in group.masters, 30_000)
    await lites.send_all(0, 3)
    assert await lites.through(waiting) == {"a": [0, 3]}
    await leave(lites, consumer)
