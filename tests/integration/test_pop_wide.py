"""Pops of a topic with many queues: those that are read out cost next to nothing, and none is forgotten."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.broker.pop.pop_reads import PopReads
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.store.config import StoreConfig
from tests.pops import PopClient
from tests.requests import send_header

QUEUES = 256


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    config = BrokerConfig(broker_name="b", listen_port=0, store_root=tmp_path)
    async with Broker(config, StoreConfig(commit_log_file_bytes=1 << 20)) as broker:
        broker.topics.put(TopicConfig("T", read_queues=QUEUES, write_queues=QUEUES))
        yield broker


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[PopClient]:
    client = PopClient(broker.address)
    yield client
    await client.net.close()


async def send(client: PopClient, queue_id: int, body: str) -> None:
    assert (await client.ask(Code.SEND_MESSAGE_V2, send_header("T", queue_id), body.encode())).code == 0


async def reads_of(client: PopClient) -> tuple[list[str], int]:
    """The bodies of one pop, and how many queues it read."""
    reads = 0

    def called(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal reads
        reads += event == "call" and frame.f_code is PopReads._get.__code__

    sys.setprofile(called)
    try:
        popped = await client.pop()
    finally:
        sys.setprofile(None)
    return [each.body for each in popped], reads


async def test_queues_that_are_read_out_are_not_read(client: PopClient) -> None:
    assert await client.pop() == []
    await send(client, 77, "m0")
    assert await reads_of(client) == (["m0"], 1)
    assert await reads_of(client) == ([], 0)
    await send(client, 3, "m1")
    await send(client, 200, "m2")
    bodies, reads = await reads_of(client)
    assert (sorted(bodies), reads) == (["m1", "m2"], 2)


async def test_a_group_that_was_moved_back_reads_again(broker: Broker, client: PopClient) -> None:
    await send(client, 5, "m")
    assert [each.body for each in await client.pop()] == ["m"]
    broker.offsets.assign_reset("g", "T", 5, 0)
    assert [each.body for each in await client.pop()] == ["m"], "an administrator has reset the group"
