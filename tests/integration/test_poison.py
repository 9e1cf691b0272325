"""Every kind of bad message (tests/poison.py) between good ones: all good ones are read, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake import Consumer, ConsumerConfig, PullConsumer, PushConsumer
from rocketlake.client.consumer.damage import DAMAGE
from rocketlake.client.hooks import DamageEvent, Hooks
from rocketlake.model.message import StoredMessage
from rocketlake.standalone import Standalone
from tests.poison import KINDS, Fate
from tests.poisoned import QUEUE, TOPIC, PoisonedQueue, only_good
from tests.stored import known_queues

QUICK = {"messageDelayLevel": " ".join(["1s"] * 18)}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[PoisonedQueue]:
    async with Standalone(tmp_path, settings=QUICK) as cluster:
        world = PoisonedQueue(cluster.namesrv_address, tmp_path / "store")
        await world.fill()
        world.rot()
        yield world


async def until(condition: Callable[[], Any], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  (what is awaited happens in listeners)
            await asyncio.sleep(0.02)


@pytest.mark.long
async def test_all_kinds(world: PoisonedQueue) -> None:
    """One world for all readers: to fill it costs more than to read it."""
    broker_refuses(world)
    await polled(world)
    await looped(world)
    await pushed(world, orderly=False)
    await pushed(world, orderly=True)


def broker_refuses(world: PoisonedQueue) -> None:
    """What the broker can see is refused with a text; nothing else is."""
    assert len(KINDS) >= 40
    assert {kind.name for kind, _ in world.refused} == {kind.name for kind in KINDS if kind.fate is Fate.REFUSED}
    for kind, remark in world.refused:
        assert remark, kind.name


async def polled(world: PoisonedQueue) -> None:
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
    # The message that made the topic may be in this queue, too.
    others = [body for body in bodies if not body.startswith(b"good ") and body != b"first"]
    assert others == world.odd_bodies
    assert sum(event.record.message is not None for event in events) >= len(world.of(Fate.DAMAGED))


async def looped(world: PoisonedQueue) -> None:
    bodies: list[bytes] = []
    async with Consumer("loops", TOPIC, namesrv=world.namesrv, from_where="first") as consumer:
        async for message in consumer:
            bodies.append(message.body)
            if len(only_good(bodies)) == len(world.good):
                break
        assert only_good(bodies) == world.good
        assert consumer.damaged >= len(world.of(Fate.DAMAGED))


async def pushed(world: PoisonedQueue, *, orderly: bool) -> None:
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
        reader.assign(await known_queues(reader, f"%DLQ%{group}"))
        await reader.seek_to_begin()
        # Each is a plain message that any consumer can read: the body as it was stored, and why it is here.
        while len(letters) < len(world.of(Fate.DAMAGED)) and (found := await reader.poll(timeout_ms=20_000)):
            letters += found
        assert reader.damaged == 0
    assert {letter.properties["RETRY_TOPIC"] for letter in letters} == {TOPIC}
    assert all(letter.properties[DAMAGE] for letter in letters)
    sent = {kind.body for kind in world.of(Fate.DAMAGED) if kind.rot is None}
    assert sent <= {letter.body for letter in letters}
