"""A queue that ends before a running consumer: its store was put back to an earlier copy."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rocketlake import ConsumerConfig, Message, Producer, PullConsumer, PushConsumer
from rocketlake.model.message import StoredMessage
from rocketlake.standalone import Standalone

QUICK = ConsumerConfig(hold_ms=300, error_pause_ms=100)
TOPIC = "Lost"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  (other tasks make it true)
            await asyncio.sleep(0.01)


class Stage:
    """A cluster whose folder can be put back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.copy = folder.with_name("copy")
        self.ports: dict[str, Any] = {}
        self.cluster = Standalone(folder)
        self.namesrv = ""

    async def start(self) -> None:
        self.cluster = Standalone(self.folder, **self.ports)
        await self.cluster.start()
        self.namesrv = self.cluster.namesrv_address
        broker = self.cluster.broker_address
        self.ports = {"namesrv_port": int(self.namesrv.split(":")[1]), "broker_port": int(broker.split(":")[1])}

    async def send(self, *bodies: bytes) -> None:
        async with Producer("senders", namesrv=self.namesrv) as producer:
            for body in bodies:
                await producer.send(Message(TOPIC, body), key=1)  # one queue

    async def keep_a_copy(self) -> None:
        await self.cluster.stop()
        shutil.copytree(self.folder, self.copy)
        await self.start()

    async def put_back(self) -> None:
        await self.cluster.stop()
        shutil.rmtree(self.folder)
        shutil.copytree(self.copy, self.folder)
        await self.start()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path / "cluster")
    await stage.start()
    yield stage
    await stage.cluster.stop()


async def test_a_listener_gets_what_came_before_the_new_end(stage: Stage) -> None:
    """It went on at the end: what was sent since lay before that."""
    seen: list[bytes] = []

    def listen(messages: list[StoredMessage]) -> None:
        seen.extend(message.body for message in messages)

    consumer = PushConsumer("g", namesrv=stage.namesrv, listener=listen, from_where="first", config=QUICK)
    consumer.subscribe(TOPIC)
    await stage.send(b"0", b"1", b"2")
    async with consumer:
        await until(lambda: len(seen) == 3)
        await stage.keep_a_copy()
        await stage.send(b"3", b"4", b"5", b"6")
        await until(lambda: len(seen) == 7)
        consumer.suspend()
        await stage.put_back()
        await stage.send(b"new 3", b"new 4")
        consumer.resume()
        await until(lambda: {b"new 3", b"new 4"} <= set(seen))
    assert set(seen[7:]) <= {b"2", b"new 3", b"new 4"}, "only what may be as young as the last message comes again"


async def test_a_poll_gets_what_came_before_the_new_end(stage: Stage) -> None:
    await stage.send(b"0", b"1", b"2")
    async with PullConsumer("g", namesrv=stage.namesrv, from_where="first", config=QUICK) as consumer:
        consumer.subscribe(TOPIC)
        seen: list[bytes] = []

        async def poll(count: int) -> None:
            while len(seen) < count:
                seen.extend(message.body for message in await consumer.poll(timeout_ms=1000))

        await poll(3)
        await stage.keep_a_copy()
        await stage.send(b"3", b"4", b"5", b"6")
        await poll(7)
        await stage.put_back()
        await stage.send(b"new 3", b"new 4")
        while not {b"new 3", b"new 4"} <= set(seen):
            await poll(len(seen) + 1)
    assert set(seen[7:]) <= {b"2", b"new 3", b"new 4"}
