"""A cut of the log under a broker that runs: pulls that are held, producer sequences."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryNet
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from tests.requests import pull_header, send_header

SERVER = "10.0.0.2:10911"


class Cluster:
    """One broker, one client; both run with the clock."""

    def __init__(self, broker_id: int = 0) -> None:
        self.broker_id = broker_id
        self.clock = ManualClock()
        self.files = MemoryFiles(clock=self.clock)
        self.net = MemoryNet(clock=self.clock)
        self.client = NetClient(clock=self.clock, network=self.net.host("10.0.0.1"))
        self.broker: Broker

    async def start(self) -> None:
        self.broker = Broker(
            BrokerConfig(
                broker_name="b",
                broker_id=self.broker_id,
                listen_host="10.0.0.2",
                listen_port=10911,
                fast_listen_port=0,
                store_root=Path("/s"),
            ),
            StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=10, index_entries=100),
            files=self.files,
            clock=self.clock,
            network=self.net.host("10.0.0.2"),
            workers=InlineWorker,
        )
        await self.broker.start()
        self.broker.topics.put(TopicConfig("T"))

    async def ask(self, command: Command) -> asyncio.Task[Command]:
        task = asyncio.create_task(self.client.invoke(SERVER, command, 1e9))
        await self.clock.run_for(100)
        return task

    async def restart(self, *, kill: bool = False) -> None:
        """`kill`: what is not synced is lost."""
        files = self.files.killed() if kill else self.files
        await self.stop()
        self.files, self.client = files, NetClient(clock=self.clock, network=self.net.host("10.0.0.1"))
        await self.start()

    async def stop(self) -> None:
        await self.client.close()
        await self.broker.stop()

    async def send_batch(self, first: int, count: int) -> int:
        """Messages of one effectively-once producer; how many of them the broker knew."""
        body = encode_batch(Message("T", b"%d" % number) for number in range(first, first + count))
        header = send_header(properties=f"__RL_SEQ\x01q/0/0/{first}/l\x02", batch=True)
        answer = (await self.ask(Command.request(RequestCode.SEND_BATCH_MESSAGE, header, body))).result()
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer.header(SendReplyHeader).known or 0

    async def pull(self, offset: int) -> asyncio.Task[Command]:
        header = pull_header(offset=offset, wait_ms=10_000)
        return await self.ask(Command.request(RequestCode.PULL_MESSAGE, header))

    @property
    def end(self) -> int:
        return self.broker.store.max_physical_offset


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    await cluster.start()
    yield cluster
    await cluster.stop()


async def test_what_was_cut_of_a_producer_is_stored_when_it_is_sent_again_and_only_that(cluster: Cluster) -> None:
    await cluster.send_batch(0, 3)
    await cluster.clock.run_for(20_000)  # the table is saved, it counts up to here
    cut_at, third = cluster.end, 0
    for first in (3, 6):
        third = cluster.end
        await cluster.send_batch(first, 3)
    await cluster.clock.run_for(20_000)
    await cluster.broker.store.cut(third)
    assert [await cluster.send_batch(first, 3) for first in (0, 3, 6)] == [3, 3, 0]
    await cluster.broker.store.cut(cut_at)  # before what the saved table counts
    assert await cluster.send_batch(0, 3) == 3
    await cluster.clock.run_for(1000)
    await cluster.restart(kill=True)  # the file says no more either, though the log grows beyond what it said
    assert [await cluster.send_batch(first, 3) for first in (0, 3, 6)] == [3, 0, 0]
    read = cluster.broker.store.get("T", 0, 0, 32, 1 << 20)
    assert [message.body for message in decode_records(b"".join(read.slices))] == [
        b"%d" % number for number in range(9)
    ]


async def test_a_pull_that_is_held_at_the_end_that_was_cut_is_answered(cluster: Cluster) -> None:
    await cluster.send_batch(0, 3)
    cut_at = cluster.end
    await cluster.send_batch(3, 3)
    held = await cluster.pull(6)
    assert not held.done()
    await cluster.broker.store.cut(cut_at)
    await cluster.clock.run_for(100)
    answer = held.result()
    assert (answer.code, (answer.fields or {})["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "3")
    again = await cluster.pull(3)
    assert not again.done()
    await cluster.send_batch(3, 1)
    found = again.result()
    assert (found.code, [message.body for message in decode_records(found.body)]) == (ResponseCode.SUCCESS, [b"3"])


async def test_offsets_of_groups_beyond_a_cut_are_lowered(cluster: Cluster) -> None:
    await cluster.send_batch(0, 3)
    cut_at = cluster.end
    await cluster.send_batch(3, 3)
    offsets = cluster.broker.offsets
    offsets.commit("behind", "T", 0, 2)
    offsets.commit("ahead", "T", 0, 6)
    await cluster.broker.store.cut(cut_at)
    assert {group: queues for group, _topic, queues in offsets.all()} == {"behind": {0: 2}, "ahead": {0: 3}}
