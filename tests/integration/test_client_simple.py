"""The simple consumer on our own cluster: received for a while, acknowledged, received again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import HandleExpired, Message, NotRunning, Producer, SimpleConsumer, StoredMessage, UsageError
from rocketlake.client import sync
from rocketlake.model.pop import PopHandle
from rocketlake.model.route import Route
from rocketlake.standalone import Standalone

EXAMPLE = Path(__file__).parents[2] / "examples" / "simple_consumer.py"
SETTINGS = {"reviveInterval": 20, "timerPrecisionMs": 100}
SOON_MS = 300
LONG_MS = 60_000


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster", settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
async def producer(cluster: Standalone) -> AsyncIterator[Producer]:
    async with Producer("p", namesrv=cluster.namesrv_address) as producer:
        yield producer


def consumer(cluster: Standalone, *topics: str, group: str = "g") -> SimpleConsumer:
    return SimpleConsumer(group, topics=dict.fromkeys(topics, "*"), namesrv=cluster.namesrv_address, from_where="first")


async def receive_all(consumer: SimpleConsumer, count: int, **how: int) -> list[StoredMessage]:
    """So many messages, whatever number of receives it takes."""
    found: list[StoredMessage] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += await consumer.receive(await_ms=5000, **how)
    return found


async def test_what_is_acknowledged_does_not_come_again_and_the_rest_does(
    cluster: Standalone, producer: Producer
) -> None:
    await producer.send_batch([Message("T", b"%d" % number, tags="t") for number in range(4)])
    async with consumer(cluster, "T") as member:
        first = await receive_all(member, 4, invisible_ms=3000)
        assert {message.topic for message in first} == {"T"}
        for message in first:
            if message.body in (b"0", b"2"):
                await member.ack(message)
        again = await receive_all(member, 2, invisible_ms=LONG_MS)
        assert {message.body for message in again} == {b"1", b"3"}
        assert {(message.topic, message.reconsume_times, message.tags) for message in again} == {("T", 1, "t")}
        for message in again:
            await member.ack(message)
        assert await member.receive(await_ms=0) == []


async def test_a_changed_time_counts_from_now_on(cluster: Standalone, producer: Producer) -> None:
    await producer.send(Message("T", b"m"))
    async with consumer(cluster, "T") as member:
        (message,) = await receive_all(member, 1, invisible_ms=LONG_MS)
        await member.change_invisible(message, SOON_MS)
        (again,) = await receive_all(member, 1, invisible_ms=SOON_MS * 10)
        assert (again.body, again.reconsume_times) == (b"m", 1)
        await member.change_invisible(again, LONG_MS)
        await member.ack(again)  # by its new handle


async def test_a_time_that_is_over_is_told(cluster: Standalone, producer: Producer) -> None:
    await producer.send(Message("T", b"m"))
    async with consumer(cluster, "T") as member:
        (message,) = await receive_all(member, 1, invisible_ms=SOON_MS)
        (again,) = await receive_all(member, 1, invisible_ms=LONG_MS)
        with pytest.raises(HandleExpired, match="handed out for 300 ms"):
            await member.ack(message)
        with pytest.raises(HandleExpired, match="handed out for 300 ms"):
            await member.change_invisible(message, LONG_MS)
        await member.ack(again)


async def test_renewed_messages_stay_until_they_are_acknowledged(cluster: Standalone, producer: Producer) -> None:
    await producer.send_batch([Message("T", b"kept"), Message("T", b"left")])
    async with consumer(cluster, "T") as member:
        held: dict[bytes, StoredMessage] = {}
        while len(held) < 2:
            held.update(
                (each.body, each) for each in await member.receive(invisible_ms=2000, await_ms=5000, renew=True)
            )
        handle = PopHandle.parse(held[b"kept"].properties["POP_CK"])
        async with asyncio.timeout(60):  # renewed for longer than it was handed out for
            while PopHandle.parse(held[b"kept"].properties["POP_CK"]).pop_ms < handle.pop_ms + handle.invisible_ms:
                assert await member.receive(await_ms=100) == []
        await member.ack(held[b"kept"])
        await member.change_invisible(held[b"left"], 100)
        (again,) = await receive_all(member, 1, invisible_ms=LONG_MS)
        assert (again.body, again.reconsume_times) == (b"left", 1)
        await member.ack(again)


async def test_several_topics_with_their_filters(cluster: Standalone, producer: Producer) -> None:
    for number in range(4):
        await producer.send(Message("A", b"a%d" % number, tags="yes" if number % 2 else "no"))
        await producer.send(Message("B", b"b%d" % number, properties={"n": str(number)}))
    async with consumer(cluster, "C") as member:
        member.subscribe("A", "yes")
        member.subscribe("B", "n > 1", "SQL92")
        found = await receive_all(member, 4, invisible_ms=LONG_MS)
        assert {message.body for message in found} == {b"a1", b"a3", b"b2", b"b3"}
        waiting = asyncio.create_task(member.receive(await_ms=30_000))
        await producer.send(Message("B", b"late", properties={"n": "7"}))
        async with asyncio.timeout(20):  # it is told when something comes
            (late,) = await waiting
        assert late.body == b"late"
        for message in [*found, late]:
            await member.ack(message)


async def test_a_receive_that_waits_ends_with_the_consumer(cluster: Standalone, producer: Producer) -> None:
    await producer.send(Message("T", b"m"))
    for topics in (["T"], ["T", "U"]):
        member = consumer(cluster, *topics, group="other" if "U" in topics else "g")
        await member.start()
        (message,) = await receive_all(member, 1, invisible_ms=LONG_MS)
        await member.ack(message)
        waiting = asyncio.create_task(member.receive(await_ms=30_000))
        await asyncio.sleep(0)
        await member.stop()
        async with asyncio.timeout(20):
            with pytest.raises(NotRunning):
                await waiting


async def test_a_receive_that_asks_for_a_route_ends_with_the_consumer_too(
    cluster: Standalone, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = consumer(cluster, "U")
    await member.start()
    asked, stopped, route = asyncio.Event(), asyncio.Event(), member.instance.name_servers.route

    async def late(topic: str, timeout_ms: int | None = None) -> Route | None:
        asked.set()
        await stopped.wait()
        return await route(topic, timeout_ms)

    monkeypatch.setattr(member.instance.name_servers, "route", late)
    waiting = asyncio.create_task(member.receive(await_ms=30_000))
    await asked.wait()
    stopping = asyncio.create_task(member.stop())
    while member.instance.is_running:  # noqa: ASYNC110 - what ends in `stop` tells nobody
        await asyncio.sleep(0.01)
    stopped.set()
    await stopping
    async with asyncio.timeout(20):
        with pytest.raises(NotRunning):
            await waiting


async def test_what_cannot_be_is_refused(cluster: Standalone, producer: Producer) -> None:
    stored = StoredMessage("T", b"not popped")
    async with consumer(cluster, "T") as member:
        with pytest.raises(UsageError, match="1 to 32"):
            await member.receive(33)
        with pytest.raises(UsageError, match="invisible_ms=0 is out of range"):
            await member.receive(invisible_ms=0)
        with pytest.raises(UsageError, match="was not popped"):
            await member.ack(stored)
        assert await member.receive(await_ms=10) == []
    with pytest.raises(NotRunning):
        await member.receive()
    with pytest.raises(UsageError, match="cannot start at a time"):
        SimpleConsumer("g", "T", from_where="timestamp")


async def test_the_blocking_twin(cluster: Standalone, producer: Producer) -> None:
    await producer.send_batch([Message("T", b"%d" % number) for number in range(3)])

    def work() -> set[bytes]:
        done = set()
        with sync.SimpleConsumer("t", "T", namesrv=cluster.namesrv_address, from_where="first") as member:
            while len(done) < 3:
                for message in member.receive(await_ms=5000, renew=True):
                    done.add(message.body)
                    member.ack(message)
            assert member.damaged == 0
        return done

    assert await asyncio.wait_for(asyncio.to_thread(work), 60) == {b"0", b"1", b"2"}


async def test_the_example(cluster: Standalone) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), cluster.namesrv_address, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert out.decode().strip() == "12 orders packed, 1 at the second try"
