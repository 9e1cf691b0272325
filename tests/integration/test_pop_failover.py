"""What is in flight survives the master: the new one brings back what was not acknowledged, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from rocketlake import ClientConfig, SimpleConsumer
from rocketlake.client.instance import ClientInstance
from rocketlake.codec import property_text
from rocketlake.protocol.request_code import RequestCode as Code
from tests.pops import PopClient, Popped
from tests.replica_group import NAMESRV, ReplicaGroup
from tests.requests import send_header

_T = TypeVar("_T")

INVISIBLE_MS = 8_000
COUNT = 12


class Popper:
    """A client of the master of a group, on virtual time."""

    def __init__(self, group: ReplicaGroup) -> None:
        self.group = group
        self.client = PopClient("", net=group.client)
        self.client.clock = group.clock  # type: ignore[assignment]

    async def through(self, call: Coroutine[Any, Any, _T]) -> _T:
        self.client.address = f"{self.group.master}:10911"
        task = asyncio.ensure_future(call)
        await self.group.run_through(task)
        return task.result()

    async def send(self, body: str) -> None:
        properties = property_text.encode({"UNIQ_KEY": f"KEY{body}"}).decode()
        header = send_header("T", 0, properties)
        assert (await self.through(self.client.ask(Code.SEND_MESSAGE_V2, header, body.encode()))).code == 0

    async def pop(self) -> list[Popped]:
        return await self.through(self.client.pop(INVISIBLE_MS, poll_ms=4000))

    async def ack(self, popped: Popped) -> None:
        assert (await self.through(self.client.ack(popped))).code == 0


async def test_the_new_master_brings_back_what_was_not_acknowledged() -> None:
    group = ReplicaGroup(3, revive_interval_ms=100)
    await group.start()
    popper = Popper(group)
    for number in range(COUNT):
        await popper.send(f"m{number}")
    popped = await popper.pop()
    assert len(popped) == COUNT
    acked = {each.body for each in popped[::2]}
    for each in popped[::2]:
        await popper.ack(each)
    old = group.master
    group.crash(old)
    await group.until(lambda: old not in group.masters and bool(group.masters), 30_000)
    assert await popper.pop() == [], "their time is not over"
    await popper.send("later")
    (later,) = await popper.pop()
    assert later.body == "later", "the new master goes on where the old one was"
    await popper.ack(later)
    again: list[str] = []
    for _ in range(5):  # the last of them find nothing
        for each in await popper.pop():
            again.append(each.body)
            await popper.ack(each)
    assert sorted(again) == sorted({each.body for each in popped} - acked)
    await group.stop()


async def test_a_receive_waits_out_a_master_that_becomes_a_slave() -> None:
    """The old master goes on as a slave, which refuses pops: the new one is found while the receive lasts."""
    group = ReplicaGroup(3, revive_interval_ms=100)
    await group.start()
    popper = Popper(group)
    await popper.send("before")
    config = ClientConfig(namesrv=f"{NAMESRV}:9876", client_ip="10.0.0.78")
    instance = ClientInstance(config, clock=group.clock, network=group.net.host("10.0.0.78"))
    await popper.through(instance.start())
    consumer = SimpleConsumer("g", "T", instance=instance, from_where="first")
    await popper.through(consumer.start())
    (before,) = await popper.through(consumer.receive(await_ms=5000))
    await popper.through(consumer.ack(before))
    waiting = asyncio.ensure_future(consumer.receive(await_ms=20_000))
    await group.clock.run_for(1000)
    old = group.master
    membership = group.brokers[old].membership
    assert membership is not None
    other = next(number for number, host in enumerate(group.hosts, 1) if host != old)
    await group.run_through(asyncio.ensure_future(membership._calls.elect(other, designated=True)))
    await group.until(lambda: bool(group.masters) and old not in group.masters, 30_000)
    await popper.send("behind")
    (behind,) = await popper.through(waiting)
    assert (before.body, behind.body) == (b"before", b"behind")
    await popper.through(consumer.stop())
    await popper.through(instance.stop())
    await group.stop()
