"""Our client in exclusive and wildcard groups of lite topics on Apache's broker 5.5.0, whose words it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from interop.apache import apache_cluster
from rocketlake import LiteSimpleConsumer, Message, Producer
from rocketlake.admin import Admin
from tests.grpc_client import until

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def namesrv(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"brokerName": "broker-a", "enableLmq": "true", "enableMultiDispatch": "true"}
    folder = tmp_path_factory.mktemp("apache")
    with apache_cluster(folder, settings=settings, peer="server550") as apache:
        yield apache.namesrv


async def create(namesrv: str, parent: str, group: str, attribute: str) -> None:
    async with Admin(namesrv=namesrv) as admin:
        await admin.create_topic(parent, queues=4, attributes="+message.type=LITE")
        await admin.create_group(group, attributes=f"+lite.bind.topic={parent},{attribute}")


async def received(consumer: LiteSimpleConsumer, count: int) -> list[str]:
    found: list[str] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            for message in await consumer.receive(await_ms=5000):
                found.append(f"{message.lite_topic}:{message.body.decode()}")
                await consumer.ack(message)
    return sorted(found)


async def test_a_lite_topic_is_given_up_when_another_consumer_takes_it(namesrv: str) -> None:
    await create(namesrv, "Alone", "alone", "+lite.sub.model=Exclusive")
    async with (
        Producer("p", namesrv=namesrv) as producer,
        LiteSimpleConsumer("alone", "Alone", namesrv=namesrv) as old,
        LiteSimpleConsumer("alone", "Alone", namesrv=namesrv) as new,
    ):
        await producer.send(Message("Alone", b"1", lite_topic="a"))
        await old.subscribe_lite("a")
        assert await received(old, 1) == ["a:1"]
        await new.subscribe_lite("a")
        async with asyncio.timeout(20):
            await until(lambda: old.lite_topics == set())
        await producer.send(Message("Alone", b"2", lite_topic="a"))
        assert await received(new, 1) == ["a:2"]
        assert new.lite_topics == {"a"}


async def test_a_consumer_of_a_wildcard_group_receives_from_all_lite_topics(namesrv: str) -> None:
    await create(namesrv, "All", "all", "+lite.sub.wildcard=true")
    async with (
        Producer("p", namesrv=namesrv) as producer,
        LiteSimpleConsumer("all", "All", namesrv=namesrv) as consumer,
    ):
        for text in ("a:1", "b:1", "a:2"):
            lite, _, body = text.partition(":")
            await producer.send(Message("All", body.encode(), lite_topic=lite))
        assert await received(consumer, 3) == ["a:1", "a:2", "b:1"]
