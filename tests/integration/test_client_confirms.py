"""A message that was handed out and not confirmed comes again; a change by the user counts; no call waits for ever."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from rocketlake import Consumer, Message, Producer, PullConsumer, PushConsumer, TransactionProducer
from rocketlake.admin import Admin
from rocketlake.base.errors import UsageError
from rocketlake.client import sync
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.standalone import Standalone
from rocketlake.testing.cluster import EmbeddedCluster

QUEUES = 4
QUICK = {"messageDelayLevel": " ".join(["1s"] * 18)}


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Standalone]:
    """A machine without memory for a page cache: else a broker starts every new group at 0 of a topic this short."""
    real = os.sysconf
    monkeypatch.setattr(os, "sysconf", lambda name: 0 if name == "SC_PHYS_PAGES" else real(name))
    async with Standalone(tmp_path / "cluster", settings=QUICK) as cluster:
        async with Admin(namesrv=cluster.namesrv_address) as admin:
            await admin.create_topic("T", queues=QUEUES)
        yield cluster


async def send(namesrv: str, topic: str, *bodies: bytes, tags: str | None = None) -> None:
    async with Producer("senders", namesrv=namesrv) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, tags=tags), key="one queue")


async def polled(consumer: PullConsumer, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    while len(bodies) < count:
        messages = await consumer.poll(timeout_ms=20_000)
        assert messages, bodies
        bodies += [message.body for message in messages]
    return bodies


async def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  (what is awaited happens in listeners)
            await asyncio.sleep(0.02)


# -- what was not confirmed comes again --------------------------------------------------------------------------------


@pytest.mark.parametrize("auto_commit", [True, False])
@pytest.mark.parametrize("assigned", [True, False])
async def test_a_group_that_starts_at_the_end_keeps_that_place(
    cluster: Standalone, auto_commit: bool, assigned: bool
) -> None:
    """F2: the work failed after one poll; the next run gets what that poll handed out, and what came later."""
    await send(cluster.namesrv_address, "T", b"old")

    async def read(consumer: PullConsumer) -> None:
        if assigned:
            consumer.assign(await consumer.fetch_queues("T"))
        else:
            consumer.subscribe("T")

    with pytest.raises(RuntimeError):
        async with PullConsumer("g", namesrv=cluster.namesrv_address, auto_commit=auto_commit) as consumer:
            await read(consumer)
            while len(consumer.queues()) < QUEUES:
                assert await consumer.poll(timeout_ms=50) == []
            assert await consumer.poll(timeout_ms=0) == []
            await send(cluster.namesrv_address, "T", b"new 0", b"new 1")
            assert await polled(consumer, 1)
            raise RuntimeError("the work failed")
    await send(cluster.namesrv_address, "T", b"new 2")
    async with PullConsumer("g", namesrv=cluster.namesrv_address, auto_commit=auto_commit) as consumer:
        await read(consumer)
        assert await polled(consumer, 3) == [b"new 0", b"new 1", b"new 2"]


async def test_a_place_that_was_sought_is_nobodys_start(cluster: Standalone) -> None:
    """`rocketlake consume` reads beside every group and commits nothing."""
    await send(cluster.namesrv_address, "T", b"0")
    async with PullConsumer("g", namesrv=cluster.namesrv_address, auto_commit=False) as consumer:
        queues = await consumer.fetch_queues("T")
        consumer.assign(queues)
        await consumer.seek_to_begin()
        assert await polled(consumer, 1) == [b"0"]
        assert not any([await consumer.committed(queue) > 0 for queue in queues])


async def test_stop_confirms_nothing(cluster: Standalone) -> None:
    """F6: `stop()` in a `finally` is called because the work failed."""
    await send(cluster.namesrv_address, "T", b"important")
    pull = PullConsumer("g", namesrv=cluster.namesrv_address, from_where="first")
    pull.subscribe("T")
    await pull.start()
    assert await polled(pull, 1) == [b"important"]
    await pull.stop()
    for _ in range(2):
        consumer = Consumer("g", "T", namesrv=cluster.namesrv_address, from_where="first")
        await consumer.start()
        message = await consumer.receive(timeout_ms=20_000)
        assert message is not None and message.body == b"important"
        await consumer.stop()
    async with Consumer("g", "T", namesrv=cluster.namesrv_address, from_where="first") as consumer:
        assert await consumer.receive(timeout_ms=20_000) is not None
    async with Consumer("g", "T", namesrv=cluster.namesrv_address, from_where="first") as consumer:
        assert await consumer.receive(timeout_ms=300) is None


# -- another filter ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assigned", [True, False])
async def test_another_filter_of_a_pull_consumer_counts_at_once(cluster: Standalone, assigned: bool) -> None:
    """F5: what the first filter left out was committed past."""
    await send(cluster.namesrv_address, "T", b"a0", tags="A")
    async with PullConsumer("g", namesrv=cluster.namesrv_address, from_where="first") as consumer:
        queues = await consumer.fetch_queues("T")
        read = (lambda tags: consumer.assign(queues, tags)) if assigned else lambda tags: consumer.subscribe("T", tags)
        read("A")
        assert await polled(consumer, 1) == [b"a0"]
        read("*")
        await send(cluster.namesrv_address, "T", b"b0", b"b1", tags="B")
        await send(cluster.namesrv_address, "T", b"a1", tags="A")
        assert await polled(consumer, 3) == [b"b0", b"b1", b"a1"]


async def test_another_filter_of_a_push_consumer_counts_at_once(cluster: Standalone) -> None:
    """A pull that waits with the old filter passes over what the new one wants."""
    await send(cluster.namesrv_address, "T", b"a0", tags="A")
    seen: list[bytes] = []
    consumer = PushConsumer(
        "g",
        namesrv=cluster.namesrv_address,
        listener=lambda messages: seen.extend(message.body for message in messages),
        orderly=True,
        from_where="first",
    )
    consumer.subscribe("T", "A")
    async with consumer:
        await until(lambda: seen == [b"a0"])
        consumer.subscribe("T", "*")
        await send(cluster.namesrv_address, "T", b"b0", b"b1", tags="B")
        await send(cluster.namesrv_address, "T", b"a1", tags="A")
        await until(lambda: len(seen) == 4)
    assert seen == [b"a0", b"b0", b"b1", b"a1"]


# -- no call waits for ever --------------------------------------------------------------------------------------------


async def test_a_second_reader_is_refused(cluster: Standalone) -> None:
    """F10: it would acknowledge the message of the first one, and wait for ever at `stop()`."""
    async with Consumer("g", "Nothing", namesrv=cluster.namesrv_address) as consumer:
        first = asyncio.create_task(consumer.receive())
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="another task waits"):
            await consumer.receive()
    assert await asyncio.wait_for(first, 10) is None


async def test_a_stop_and_a_rebalance_leave_a_queue_once(cluster: Standalone, monkeypatch: pytest.MonkeyPatch) -> None:
    """structure.md, bug 4: both left it, the second one raised KeyError out of `stop()`."""
    await send(cluster.namesrv_address, "T", b"0")
    consumer = PullConsumer("g", namesrv=cluster.namesrv_address, from_where="first")
    consumer.subscribe("T")
    await consumer.start()
    await until(lambda: len(consumer.assignment) > 0)
    gate, persist = asyncio.Event(), consumer._offsets.persist

    async def slow(queues: Collection[MessageQueue]) -> None:
        await gate.wait()
        await persist(queues)

    monkeypatch.setattr(consumer._offsets, "persist", slow)
    leaves = [asyncio.create_task(consumer.leave(queue)) for queue in consumer.assignment]  # as a rebalance does
    await asyncio.sleep(0)
    stopping = asyncio.create_task(consumer.stop())
    for _ in range(20):
        await asyncio.sleep(0)
    gate.set()
    await asyncio.wait_for(asyncio.gather(stopping, *leaves), 20)
    assert consumer.queues() == []


async def test_a_queue_that_is_given_away_during_a_seek_is_not_read_again(
    cluster: Standalone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F13: the seek of a fetch that had ended began it anew, beside the new member's."""
    await send(cluster.namesrv_address, "T", b"0")
    async with PullConsumer("g", namesrv=cluster.namesrv_address, from_where="first") as consumer:
        consumer.subscribe("T")
        await until(lambda: len(consumer.assignment) > 0)
        queue = next(iter(consumer.assignment))
        end_of = consumer._access.end_of

        async def rebalanced(asked: MessageQueue) -> int:
            await consumer.leave(asked)
            return await end_of(asked)

        monkeypatch.setattr(consumer._access, "end_of", rebalanced)
        with pytest.raises(UsageError, match="no longer read"):
            await consumer.seek(queue, 0)
        assert not [task for task in asyncio.all_tasks() if task.get_name().endswith(f"fetch {queue}")]


async def test_a_second_start_leaves_nothing_behind(cluster: Standalone) -> None:
    """structure.md, bug 15: it is refused, but the workers and the place in the client's list stayed."""
    consumer = PushConsumer("g", namesrv=cluster.namesrv_address, listener=lambda _messages: None)
    consumer.subscribe("T")
    await consumer.start()
    await consumer.stop()
    before = asyncio.all_tasks()
    with pytest.raises(UsageError, match="one that was stopped does not start again"):
        await consumer.start()
    assert not consumer.is_running
    await until(lambda: asyncio.all_tasks() <= before)


async def test_a_stop_that_is_cancelled_leaves_the_group(cluster: Standalone) -> None:
    """`wait_for(consumer.stop(), ...)` while a listener runs: heartbeats went on, the queues stayed with nobody."""
    await send(cluster.namesrv_address, "T", b"0")
    begun = asyncio.Event()

    async def listen(messages: list[StoredMessage]) -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    consumer = PushConsumer("g", namesrv=cluster.namesrv_address, listener=listen, from_where="first")
    consumer.subscribe("T")
    await consumer.start()
    await begun.wait()
    assert cluster.broker.clients.consumers.find("g") is not None
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(consumer.stop(), 0.2)
    assert cluster.broker.clients.consumers.find("g") is None
    assert not consumer.instance.is_running


async def test_a_cancelled_stop_of_a_producer_closes_its_links() -> None:
    """A name server that takes connections and answers nothing."""
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    producer = TransactionProducer("p", namesrv=f"127.0.0.1:{port}", check=lambda message: None)
    await producer.start()
    producer.send_nowait(Message("T", b"0"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(producer.stop(), 0.2)
    assert not producer.is_running and not producer.instance.is_running and not producer._sends
    server.close()
    for writer in held:
        writer.close()


@pytest.fixture
def embedded(tmp_path: Path) -> Any:
    with EmbeddedCluster(tmp_path / "cluster") as cluster:
        yield cluster


def test_a_listener_that_exits_ends_no_blocking_client(embedded: EmbeddedCluster) -> None:
    """F8: the thread of all blocking clients died, every call of every other one waited for ever."""
    heard = threading.Event()
    calls = 0

    def listener(messages: list[StoredMessage]) -> None:
        nonlocal calls
        calls += 1
        heard.set()
        if calls == 1:
            sys.exit(3)

    with sync.Producer("p", namesrv=embedded.namesrv) as producer:
        producer.send(Message("T", b"0"))
        consumer = sync.PushConsumer("g", namesrv=embedded.namesrv, listener=listener, from_where="first")
        consumer.subscribe("T")
        with consumer:
            assert heard.wait(30)
            producer.send_nowait(Message("T", b"1"), lambda result, error: sys.exit(4))
            producer.flush()
            assert producer.send(Message("T", b"2")).message_id


def test_a_blocking_stop_in_a_callback_is_refused(embedded: EmbeddedCluster) -> None:
    """F12: it broke the client; it works on after the error."""
    raised: list[BaseException] = []
    with sync.Producer("p", namesrv=embedded.namesrv) as producer:

        def callback(result: object, error: object) -> None:
            try:
                producer.stop()
            except UsageError as problem:
                raised.append(problem)

        producer.send_nowait(Message("T", b"0"), callback)
        producer.flush()
        assert "another thread" in str(raised[0])
        assert producer.send(Message("T", b"1")).message_id


def test_a_call_that_waits_ends_when_another_thread_stops_the_client(embedded: EmbeddedCluster) -> None:
    consumer = sync.Consumer("g", "Nothing", namesrv=embedded.namesrv)
    consumer.start()
    ended: list[object] = []
    thread = threading.Thread(target=lambda: ended.append(consumer.receive()))
    thread.start()
    consumer.stop()
    thread.join(30)
    assert not thread.is_alive()
