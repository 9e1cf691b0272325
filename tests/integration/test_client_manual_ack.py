"""Messages acknowledged by hand on our own cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from queue import Queue

import pytest

from rocketlake import ConsumerConfig, Delivery, Message, Producer, PullConsumer, PushConsumer, manual_ack
from rocketlake.client import sync
from rocketlake.standalone import Standalone
from tests.stored import known_queues

EXAMPLE = Path(__file__).parents[2] / "examples" / "manual_ack.py"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster") as cluster:
        yield cluster


async def committed(namesrv: str, group: str, topic: str) -> int:
    async with PullConsumer(group, namesrv=namesrv, auto_commit=False) as consumer:
        return sum([max(0, await consumer.committed(queue)) for queue in await known_queues(consumer, topic)])


async def test_what_was_not_acknowledged_comes_to_the_next_member(cluster: Standalone) -> None:
    namesrv, first = cluster.namesrv_address, asyncio.Queue[Delivery]()
    async with Producer("p", namesrv=namesrv) as producer:
        queue = (await producer.send(Message("Hand", b"0"))).queue
        for number in range(1, 4):
            await producer.send(Message("Hand", b"%d" % number), queue=queue)

    def consumer(waiting: asyncio.Queue[Delivery]) -> PushConsumer:
        member = PushConsumer(
            "g",
            listener=manual_ack(waiting.put),
            namesrv=namesrv,
            from_where="first",
            config=ConsumerConfig(drain_ms=0),  # a stop does not wait for what is not acknowledged
        )
        member.subscribe("Hand")
        return member

    async with asyncio.timeout(60), consumer(first):
        deliveries = [await first.get() for _ in range(4)]
        by_body = {delivery.message.body: delivery for delivery in deliveries}
        assert by_body[b"0"].ack()
        assert by_body[b"2"].ack()
    assert not by_body[b"1"].ack(), "the consumer was stopped"
    assert await committed(namesrv, "g", "Hand") == 1
    second = asyncio.Queue[Delivery]()
    async with asyncio.timeout(60), consumer(second):
        bodies = set()
        while bodies != {b"1", b"2", b"3"}:
            delivery = await second.get()
            bodies.add(delivery.message.body)
            assert delivery.ack()
    assert await committed(namesrv, "g", "Hand") == 4


async def test_threads_acknowledge_through_the_blocking_twin(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    async with Producer("p", namesrv=namesrv) as producer:
        await producer.send(Message("Hand", b"x"))

    def read() -> bool:
        waiting: Queue[Delivery] = Queue()
        consumer = sync.PushConsumer("t", listener=manual_ack(waiting.put), namesrv=namesrv, from_where="first")
        consumer.subscribe("Hand")
        with consumer:
            return waiting.get(timeout=60).ack()

    assert await asyncio.to_thread(read)
    assert await committed(namesrv, "t", "Hand") == 1


async def test_the_example(cluster: Standalone) -> None:
    command = (sys.executable, str(EXAMPLE), cluster.namesrv_address)
    example = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await example.communicate()
    assert example.returncode == 0
    assert printed.decode() == "25 orders written and acknowledged\n"
    assert await committed(cluster.namesrv_address, "books", "orders") == 25
