"""One listener at a time has messages of an ordered queue, under every owner of the queue and however long it runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from rocketlake import ConsumerConfig, Message, MessageQueue, Producer, PushConsumer
from rocketlake.client.consumer.listener import Listener
from rocketlake.model.message import StoredMessage
from rocketlake.standalone import Standalone


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster") as cluster:
        async with Producer("senders", namesrv=cluster.namesrv_address) as producer:
            for n in range(3):
                await producer.send(Message("T", str(n).encode()), key="one queue")
        yield cluster


def ordered(cluster: Standalone, listener: Listener, config: ConsumerConfig | None = None) -> PushConsumer:
    consumer = PushConsumer(
        "g", namesrv=cluster.namesrv_address, listener=listener, orderly=True, from_where="first", config=config
    )
    consumer.subscribe("T")
    return consumer


class SlowListener:
    """Keeps its first message until `goes_on`."""

    def __init__(self) -> None:
        self.begun: asyncio.Future[MessageQueue] = asyncio.get_running_loop().create_future()
        self.goes_on = asyncio.Event()
        self.ended = False

    async def __call__(self, messages: list[StoredMessage]) -> None:
        if not self.begun.done():
            self.begun.set_result(messages[0].message_queue)
            try:
                await self.goes_on.wait()
            finally:
                await asyncio.sleep(0)
                self.ended = True


@pytest.mark.parametrize("resets", [0, 1, 2])
async def test_a_queue_is_given_up_when_its_listener_has_ended(cluster: Standalone, resets: int) -> None:
    """Also the listener that has what was in hand before an offset reset."""
    listener = SlowListener()
    consumer = ordered(cluster, listener.__call__)
    async with consumer:
        queue = await listener.begun
        consumer._rebalance.is_paused = True
        for _ in range(resets):
            await consumer._held.reset("T", {queue: 0})
        assert not await consumer._held.leave(queue), "given up while its listener runs"
        assert cluster.broker.clients.queue_locks.holder("g", queue) == consumer.instance.client_id
        listener.goes_on.set()
        while not await consumer._held.leave(queue):
            pass
        assert cluster.broker.clients.queue_locks.holder("g", queue) is None


async def test_the_lock_is_renewed_until_the_listener_ends(
    cluster: Standalone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue is on its way to another member, and its lock lives for an instant only."""
    listener = SlowListener()
    consumer = ordered(cluster, listener.__call__, ConsumerConfig(lock_interval_ms=10))
    async with consumer:
        queue = await listener.begun
        consumer._rebalance.is_paused = True
        assert not await consumer._held.leave(queue)
        renewed, locks = asyncio.Event(), cluster.broker.clients.queue_locks
        lock = locks.lock

        def watched(group: str, client_id: str, queues: Sequence[MessageQueue]) -> set[MessageQueue]:
            if queue in queues:
                renewed.set()
            return lock(group, client_id, queues)

        monkeypatch.setattr(locks, "lock", watched)
        await asyncio.wait_for(renewed.wait(), 20)
        listener.goes_on.set()


async def test_a_stop_keeps_the_lock_of_a_function_that_still_runs(cluster: Standalone) -> None:
    """A thread cannot be cancelled: the lock expires at the broker, which by then hears no more renewals."""
    loop, begun, goes_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    queues: list[MessageQueue] = []

    def listen(messages: list[StoredMessage]) -> None:
        queues.append(messages[0].message_queue)
        loop.call_soon_threadsafe(begun.set)
        goes_on.wait(30)

    consumer = ordered(cluster, listen, ConsumerConfig(drain_ms=0))
    try:
        async with consumer:
            await begun.wait()
            client_id, held = consumer.instance.client_id, set(consumer.assignment)
    finally:
        goes_on.set()
    assert queues[0] in held
    locks = cluster.broker.clients.queue_locks
    assert {queue for queue in held if locks.holder("g", queue) == client_id} == {queues[0]}


async def test_a_stop_ends_a_coroutine_before_it_gives_its_lock_up(
    cluster: Standalone, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = SlowListener()
    consumer = ordered(cluster, listener.__call__, ConsumerConfig(drain_ms=0))
    had_ended: list[bool] = []
    locks = cluster.broker.clients.queue_locks
    unlock = locks.unlock

    def watched(group: str, client_id: str, queues: list[MessageQueue]) -> None:
        had_ended.append(listener.ended)
        unlock(group, client_id, queues)

    monkeypatch.setattr(locks, "unlock", watched)
    async with consumer:
        queue = await listener.begun
    assert had_ended and all(had_ended)
    assert locks.holder("g", queue) is None
