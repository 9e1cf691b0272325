"""Our producer takes messages back that wait for their time, on our own cluster over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import Message, Producer, PullConsumer, RemoteError, UsageError
from rocketlake.client import sync
from rocketlake.model.message_id import RecallHandle
from rocketlake.standalone import Standalone
from tests.stored import known_queues

TOPIC = "Later"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster") as cluster:
        yield cluster


async def came(namesrv: str, count: int) -> list[bytes]:
    async with PullConsumer("reader", namesrv=namesrv) as consumer:
        consumer.assign(await known_queues(consumer, TOPIC))
        await consumer.seek_to_begin()
        found: list[bytes] = []
        while len(found) < count:
            found += [message.body for message in await consumer.poll(timeout_ms=200)]
        return sorted(found)


async def test_a_message_that_was_taken_back_does_not_come(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    async with Producer("later", namesrv=namesrv) as producer:
        plain = await producer.send(Message(TOPIC, b"plain"))
        # All at once: a busy machine has little more than two seconds to take them back.
        sends = [producer.send(Message(TOPIC, b"%d" % number, delay=2.5)) for number in range(6)]
        sent = await asyncio.gather(*sends)
        assert (plain.recall_handle, len({each.recall_handle for each in sent})) == ("", 6)
        for _twice in range(2):
            recalls = [producer.recall(TOPIC, each.recall_handle) for each in sent[::2]]
            assert await asyncio.gather(*recalls) == [each.message_id for each in sent[::2]]
        await producer.send(Message(TOPIC, b"behind them", delay=2.9))
    assert await came(namesrv, 5) == [b"1", b"3", b"5", b"behind them", b"plain"]


async def test_what_cannot_be_taken_back_is_said(cluster: Standalone) -> None:
    async with Producer("later", namesrv=cluster.namesrv_address) as producer:
        sent = await producer.send(Message(TOPIC, b"x", delay=60))
        handle = RecallHandle.of_text(sent.recall_handle)
        with pytest.raises(UsageError, match="of topic 'Later', not of 'Other'"):
            await producer.recall("Other", sent.recall_handle)
        with pytest.raises(UsageError, match="recall handle is invalid"):
            await producer.recall(TOPIC, sent.message_id)
        with pytest.raises(RemoteError, match=r"timestamp invalid.*too late"):
            await producer.recall(TOPIC, handle._replace(due_text="1").to_text())
        cluster.broker.config.update({"recallMessageEnable": "false"})
        with pytest.raises(RemoteError, match="recallMessageEnable=true"):
            await producer.recall(TOPIC, sent.recall_handle)


async def test_the_blocking_twin(cluster: Standalone) -> None:
    def talk() -> bool:
        with sync.Producer("later", namesrv=cluster.namesrv_address) as producer:
            sent = producer.send(Message(TOPIC, b"x", delay=60))
            return producer.recall(TOPIC, sent.recall_handle) == sent.message_id

    assert await asyncio.to_thread(talk)
