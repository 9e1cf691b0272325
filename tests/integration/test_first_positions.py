"""A first position that a pull consumer saves never replaces an offset that the group committed since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import Message, MessageQueue, Producer, PullConsumer
from rocketlake.standalone import Standalone
from tests.stored import known_queues


@pytest.fixture
async def consumer(tmp_path: Path) -> AsyncIterator[PullConsumer]:
    """Reads the four queues of topic T from the first of ten messages each; its group never committed."""
    async with Standalone(tmp_path) as cluster:
        namesrv = cluster.namesrv_address
        async with Producer("P", namesrv=namesrv) as producer:
            await producer.send(Message("T", b"x"))
            for queue in await producer.queues("T"):
                await producer.send_batch([Message("T", b"x")] * 10, queue=queue)
        async with PullConsumer("G", namesrv=namesrv, from_where="first", auto_commit=False) as consumer:
            consumer.assign(await known_queues(consumer, "T"))
            queues = consumer.assignment
            assert await consumer.position(queues[0]) == 0
            committed = consumer._access.committed

            async def or_none(queue: MessageQueue) -> int:
                return await committed(queue) or -1

            # What a broker says when the first messages have expired; it says 0 while they are there.
            consumer._access.committed = or_none  # type: ignore[method-assign]
            for queue in queues:
                consumer._commits.begin(queue, 0)
            yield consumer


async def test_a_reset_wins_over_a_first_position_that_is_under_way(consumer: PullConsumer) -> None:
    commit, begun, go_on = consumer._access.commit, asyncio.Event(), asyncio.Event()
    held: list[MessageQueue] = []

    async def slow(queue: MessageQueue, offset: int) -> None:
        if offset == 0 and not held:
            held.append(queue)
            begun.set()
            await go_on.wait()
        await commit(queue, offset)

    consumer._access.commit = slow  # type: ignore[method-assign]  # a slow line, and then the real broker
    poll = asyncio.create_task(consumer.poll(timeout_ms=5000))
    await begun.wait()
    reset = asyncio.create_task(consumer._reset("T", {held[0]: 5}))
    await asyncio.wait([reset], timeout=0.1)
    go_on.set()
    await asyncio.gather(poll, reset)
    assert await consumer.committed(held[0]) == 5


async def test_a_poll_keeps_its_time_at_a_broker_that_saves_nothing_and_hands_out_nothing_unsaved(
    consumer: PullConsumer,
) -> None:
    """Each poll waited for one save after the other, up to 5 s for each queue."""
    commit, go_on = consumer._access.commit, asyncio.Event()

    async def silent(queue: MessageQueue, offset: int) -> None:
        await go_on.wait()
        await commit(queue, offset)

    consumer._access.commit = silent  # type: ignore[method-assign]  # no answer, and then the real broker
    async with asyncio.timeout(20):
        assert await consumer.poll(timeout_ms=100) == []
        go_on.set()
        found = [message.queue_offset for message in await consumer.poll(timeout_ms=20_000)]
    assert found[0] == 0


async def test_what_another_member_committed_meanwhile_stays(consumer: PullConsumer) -> None:
    queue = consumer.assignment[0]
    await consumer._access.commit(queue, 5)
    async with asyncio.timeout(20):
        while any(consumer._commits.holds_back(queue) for queue in consumer.assignment):
            await consumer.poll(timeout_ms=5000)
    assert await consumer.committed(queue) == 5


async def test_a_reset_wins_over_a_commit_that_is_under_way(consumer: PullConsumer) -> None:
    commit, begun, go_on = consumer._access.commit, asyncio.Event(), asyncio.Event()
    first, second = consumer.assignment[:2]

    async def slow(queue: MessageQueue, offset: int) -> None:
        if queue == first:
            begun.set()
            await go_on.wait()
        await commit(queue, offset)

    consumer._access.commit = slow  # type: ignore[method-assign]  # a slow line, and then the real broker
    saving = asyncio.create_task(consumer.commit({first: 10, second: 10}))
    await begun.wait()
    reset = asyncio.create_task(consumer._reset("T", {second: 5}))
    await asyncio.wait([reset], timeout=0.1)
    go_on.set()
    await asyncio.gather(saving, reset)
    assert [await consumer.committed(queue) for queue in (first, second)] == [10, 5]
