"""Our simple consumer on Apache's broker 5.5.0 and on ours: each message once, again if it is not acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from interop.apache import apache_cluster
from rocketlake import Message, Producer, SimpleConsumer, StoredMessage
from rocketlake.admin import Admin
from rocketlake.admin.topic_change import TopicChange

pytestmark = pytest.mark.interop

COUNT = 300
LONG_MS = 60_000


@pytest.fixture(scope="module")
def apache550(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apache_cluster(
        tmp_path_factory.mktemp("apache550"), peer="server550", settings={"enablePropertyFilter": "true"}
    ) as cluster:
        yield cluster.namesrv


@pytest.fixture(params=["apache550", "our_namesrv"])
def namesrv(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


async def receive(consumer: SimpleConsumer, count: int, invisible_ms: int = LONG_MS) -> dict[str, StoredMessage]:
    """So many messages by their body; none comes twice."""
    found: dict[str, StoredMessage] = {}
    async with asyncio.timeout(90):
        while len(found) < count:
            for message in await consumer.receive(invisible_ms=invisible_ms, await_ms=5000):
                assert message.body.decode() not in found
                found[message.body.decode()] = message
    return found


async def test_each_message_once_and_again_if_it_is_not_acknowledged(namesrv: str) -> None:
    async with Producer("p", namesrv=namesrv) as producer:
        for number in range(COUNT):
            await producer.send(Message("Simple", str(number).encode(), tags="AB"[number % 2]))
    async with SimpleConsumer("simple", "Simple", namesrv=namesrv, from_where="first") as consumer:
        found = await receive(consumer, COUNT, 20_000)
        left = {"7", "8"}
        for body, message in found.items():
            if body not in left:
                await consumer.ack(message)
        await consumer.change_invisible(found["7"], 1000)
        again = await receive(consumer, 2)
        assert again.keys() == left
        assert {(each.topic, each.reconsume_times) for each in again.values()} == {("Simple", 1)}
        for message in again.values():
            await consumer.ack(message)
        assert await consumer.receive(await_ms=3000) == []


async def test_topics_with_filters_and_a_renewal(namesrv: str) -> None:
    async with Producer("p", namesrv=namesrv) as producer:
        for number in range(8):
            await producer.send(Message("SimpleTags", b"t%d" % number, tags="AB"[number % 2]))
            await producer.send(Message("SimpleSql", b"s%d" % number, properties={"n": str(number)}))
        async with SimpleConsumer(
            "filters", namesrv=namesrv, topics={"SimpleTags": "B"}, from_where="first"
        ) as consumer:
            consumer.subscribe("SimpleSql", "n > 5", "SQL92")
            found = await receive(consumer, 6)
            assert found.keys() == {"t1", "t3", "t5", "t7", "s6", "s7"}
            waiting = asyncio.create_task(consumer.receive(invisible_ms=3000, await_ms=30_000, renew=True))
            await producer.send(Message("SimpleTags", b"late", tags="B"))
            (late,) = await waiting
            first = late.properties["POP_CK"]
            async with asyncio.timeout(30):
                while late.properties["POP_CK"].split()[1] <= str(int(first.split()[1]) + 4000):
                    assert await consumer.receive(await_ms=500) == [], "it is renewed, so it does not come again"
            for message in [*found.values(), late]:
                await consumer.ack(message)


async def test_the_highest_priority_first(namesrv: str) -> None:
    async with Admin(namesrv=namesrv) as admin:
        await admin.create_topic("Urgent", queues=4)
        await admin.alter_topic("Urgent", TopicChange(attributes="+message.type=PRIORITY"))
    async with Producer("p", namesrv=namesrv) as producer:
        for number in range(3):
            for priority in (0, 2, 9, 1):
                sent = await producer.send(Message("Urgent", b"%d %d" % (priority, number), priority=priority))
                assert sent.queue.queue_id == min(priority, 3)
    async with SimpleConsumer("urgent", "Urgent", namesrv=namesrv, from_where="first") as consumer:
        found = list(await receive(consumer, 12))
    assert [body[0] for body in found] == ["9"] * 3 + ["2"] * 3 + ["1"] * 3 + ["0"] * 3
