"""An operator moves the offsets of a running group through the broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import ConsumerConfig, Message, Producer, PullConsumer, PushConsumer
from rocketlake.client.calls.answer import ask
from rocketlake.model.message import StoredMessage
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader, DeleteTopicHeader
from rocketlake.protocol.headers.client import ResetOffsetHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.standalone import Standalone

# The broker tells of the reset in its answer to the next pull.
QUICK = ConsumerConfig(hold_ms=300)
TOPIC, GROUP = "Watched", "watched_group"


class Stage:
    """A consumer that has read `count` messages of one queue."""

    def __init__(self, cluster: Standalone) -> None:
        self.cluster = cluster
        self.seen: list[bytes] = []
        self.arrived = asyncio.Event()
        self.producer = Producer("senders", namesrv=cluster.namesrv_address)
        self.consumer = PushConsumer(
            GROUP, namesrv=cluster.namesrv_address, listener=self.listen, from_where="first", config=QUICK
        )
        self.consumer.subscribe(TOPIC, "*")

    async def listen(self, messages: list[StoredMessage]) -> None:
        self.seen += [message.body for message in messages]
        self.arrived.set()

    async def seen_count(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.seen) < count:
                self.arrived.clear()
                await self.arrived.wait()

    async def ask(self, code: RequestCode, header: Header) -> bytes:
        answer = await ask(self.producer.instance.net, self.cluster.broker_address, Command.request(code, header))
        return answer.body_bytes


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Standalone(tmp_path / "cluster") as cluster:
        stage = Stage(cluster)
        async with stage.producer, stage.consumer:
            for n in range(5):
                await stage.producer.send(Message(TOPIC, str(n).encode()), key=1)
            await stage.seen_count(5)
            yield stage


async def test_a_reset_makes_the_running_consumer_read_again(stage: Stage) -> None:
    await stage.ask(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        ResetOffsetHeader(topic=TOPIC, group=GROUP, timestamp=0, is_force=True),
    )
    await stage.seen_count(10)
    assert stage.seen[5:10] == stage.seen[:5]


async def test_a_polling_group_that_was_reset_hands_out_nothing_of_before(stage: Stage) -> None:
    """What it had fetched ahead was handed out first, and committed: after a crash the reset was forgotten."""
    async with PullConsumer("polling", namesrv=stage.cluster.namesrv_address, from_where="first", config=QUICK) as it:
        it.subscribe(TOPIC)
        assert [message.body for message in await it.poll(timeout_ms=20_000, max_messages=1)] == [b"0"]
        await stage.ask(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            ResetOffsetHeader(topic=TOPIC, group="polling", timestamp=0, is_force=True),
        )
        (queue,) = [queue for queue in it.assignment if await it.committed(queue) == 0 and await it.end_offset(queue)]
        async with asyncio.timeout(20):
            while await it.position(queue) != 0:  # noqa: ASYNC110  (the next pull hears of the reset)
                await asyncio.sleep(0.01)
        assert [message.body for message in await it.poll(timeout_ms=20_000)] == stage.seen[:5]


@pytest.mark.parametrize("count", [3, 8])
async def test_a_running_consumer_reads_all_of_a_topic_that_is_made_anew(stage: Stage, count: int) -> None:
    """The new queue is shorter than what was read of the old one, or it holds the old offsets already."""
    create = CreateTopicHeader(
        topic=TOPIC,
        default_topic="TBW102",
        read_queue_nums=4,
        write_queue_nums=4,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    await stage.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic=TOPIC))
    await stage.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create)
    new = [f"new {n}".encode() for n in range(count)]
    for body in new:
        await stage.producer.send(Message(TOPIC, body), key=1)  # the same queue
    await stage.seen_count(5 + count)
    assert stage.seen[5:] == new
