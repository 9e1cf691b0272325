"""Every kind of bad message (tests/poison.py) between good ones: all good ones are read, in order."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake import Consumer, ConsumerConfig, Message, MessageQueue, Producer, PullConsumer, PushConsumer
from rocketlake.base.clock import SystemClock
from rocketlake.client.consumer.damage import DAMAGE
from rocketlake.client.hooks import DamageEvent, Hooks
from rocketlake.model.message import StoredMessage
from rocketlake.net.client import NetClient
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.standalone import Standalone
from tests.poison import KINDS, Fate, Kind, command, good

TOPIC = "Poisoned"
QUEUE = 1
GOOD_BETWEEN = 2
QUICK = {"messageDelayLevel": " ".join(["1s"] * 18)}


class World:
    """A cluster with one queue that holds all of `KINDS`, each between good messages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cluster = Standalone(root, settings=QUICK)
        self.good: list[bytes] = []
        self.stored: list[Kind] = []
        self.refused: list[tuple[Kind, str]] = []
        self._places: list[tuple[Kind, int]] = []

    @property
    def namesrv(self) -> str:
        return self.cluster.namesrv_address

    async def fill(self) -> None:
        net = NetClient(clock=SystemClock())
        async with Producer("fillers", namesrv=self.namesrv) as producer:
            await producer.send(Message(TOPIC, b"first"))
            queue = next(q for q in await producer.queues(TOPIC) if q.queue_id == QUEUE)
            for kind in KINDS:
                await self._send_good(producer, queue)
                address = await producer.instance.master(queue.broker_name, TOPIC)
                await self._send_bad(net, address, kind)
            await self._send_good(producer, queue)
        await net.close()

    async def _send_good(self, producer: Producer, queue: MessageQueue) -> None:
        for _ in range(GOOD_BETWEEN):
            body = good(len(self.good))
            await producer.send(Message(TOPIC, body), queue=queue)
            self.good.append(body)

    async def _send_bad(self, net: NetClient, address: str, kind: Kind) -> None:
        answer = await net.invoke(address, command(TOPIC, QUEUE, kind), 10_000)
        if answer.code != ResponseCode.SUCCESS:
            self.refused.append((kind, answer.remark or ""))
            return
        self.stored.append(kind)
        message_id = answer.header(SendReplyHeader).msg_id
        self._places.append((kind, int(message_id[-16:], 16)))

    def rot(self) -> None:
        """Change the records of the kinds that rot, in the log itself."""
        for kind, offset in self._places:
            if kind.rot is None:
                continue
            path = max(p for p in (self.root / "store" / "commitlog").iterdir() if int(p.name) <= offset)
            with path.open("r+b") as log:
                log.seek(offset - int(path.name))
                size = struct.unpack(">i", log.read(4))[0]
                log.seek(-4, 1)
                record = bytearray(log.read(size))
                kind.rot(record)
                log.seek(-size, 1)
                log.write(record)

    def of(self, fate: Fate) -> list[Kind]:
        return [kind for kind in self.stored if kind.fate is fate]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "cluster")
    async with world.cluster:
        await world.fill()
        world.rot()
        yield world


async def until(condition: Callable[[], Any], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  (what is awaited happens in listeners)
            await asyncio.sleep(0.02)


def only_good(bodies: list[bytes]) -> list[bytes]:
    return [body for body in bodies if body.startswith(b"good ")]


async def test_all_kinds(world: World) -> None:
    """One world for all readers: to fill it costs more than to read it."""
    broker_refuses(world)
    await polled(world)
    await looped(world)
    await pushed(world, orderly=False)
    await pushed(world, orderly=True)


def broker_refuses(world: World) -> None:
    """What the broker can see is refused with a text; nothing else is."""
    assert len(KINDS) >= 40
    assert {kind.name for kind, _ in world.refused} == {kind.name for kind in KINDS if kind.fate is Fate.REFUSED}
    for kind, remark in world.refused:
        assert remark, kind.name


async def polled(world: World) -> None:
    hooks, events = Hooks(), list[DamageEvent]()
    hooks.on_damage.append(events.append)
    bodies: list[bytes] = []
    async with PullConsumer("polls", namesrv=world.namesrv, hooks=hooks) as consumer:
        queue = next(q for q in await consumer.fetch_queues(TOPIC) if q.queue_id == QUEUE)
        consumer.assign([queue])
        await consumer.seek_to_begin()
        while len(only_good(bodies)) < len(world.good):
            messages = await consumer.poll(timeout_ms=30_000)
            assert messages, f"stuck at {await consumer.position(queue)} after {bodies[-1:]}"
            bodies += [message.body for message in messages]
        assert only_good(bodies) == world.good
        assert consumer.damaged == len(events) >= len(world.of(Fate.DAMAGED))
    wanted = [kind.body if kind.seen is None else kind.seen for kind in world.of(Fate.READ)]
    # The message that made the topic may be in this queue, too.
    others = [body for body in bodies if not body.startswith(b"good ") and body != b"first"]
    assert others == wanted
    assert sum(event.record.message is not None for event in events) >= len(world.of(Fate.DAMAGED))


async def looped(world: World) -> None:
    bodies: list[bytes] = []
    async with Consumer("loops", TOPIC, namesrv=world.namesrv, from_where="first") as consumer:
        async for message in consumer:
            bodies.append(message.body)
            if len(only_good(bodies)) == len(world.good):
                break
        assert only_good(bodies) == world.good
        assert consumer.damaged >= len(world.of(Fate.DAMAGED))


async def pushed(world: World, *, orderly: bool) -> None:
    group = f"pushes-{orderly}"
    bodies: list[bytes] = []
    letters: list[StoredMessage] = []
    consumer = PushConsumer(
        group,
        namesrv=world.namesrv,
        listener=lambda messages: bodies.extend(message.body for message in messages),
        orderly=orderly,
        from_where="first",
        config=ConsumerConfig(concurrency=4 if orderly else 1),
    )
    consumer.subscribe(TOPIC)
    async with consumer:
        await until(lambda: len(only_good(bodies)) >= len(world.good))
        assert only_good(bodies) == world.good
        assert consumer.damaged >= len(world.of(Fate.DAMAGED))
    async with PullConsumer(f"letters-{orderly}", namesrv=world.namesrv) as reader:
        reader.assign(await reader.fetch_queues(f"%DLQ%{group}"))
        await reader.seek_to_begin()
        # Each is a plain message that anybody can read: the body as it was stored, and why it is here.
        while len(letters) < len(world.of(Fate.DAMAGED)) and (found := await reader.poll(timeout_ms=20_000)):
            letters += found
        assert reader.damaged == 0
    assert {letter.properties["RETRY_TOPIC"] for letter in letters} == {TOPIC}
    assert all(letter.properties[DAMAGE] for letter in letters)
    sent = {kind.body for kind in world.of(Fate.DAMAGED) if kind.rot is None}
    assert sent <= {letter.body for letter in letters}
