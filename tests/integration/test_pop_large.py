"""Pops of large messages: an answer is one frame, so it brings as many as fit, and the others come next."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketlake import Message, Producer, SimpleConsumer
from rocketlake.admin import Admin
from rocketlake.standalone import Standalone

BODY_BYTES = 4 << 20
COUNT = 9


@pytest.mark.parametrize("queues", [1, 4])
async def test_each_large_message_is_popped_once(tmp_path: Path, queues: int) -> None:
    async with Standalone(tmp_path) as cluster, Admin(namesrv=cluster.namesrv_address) as admin:
        await admin.create_topic("Large", queues=queues)
        async with Producer("p", namesrv=cluster.namesrv_address) as producer:
            for number in range(COUNT):
                await producer.send(Message("Large", number.to_bytes(1, "big") * BODY_BYTES))
        found: list[int] = []
        async with SimpleConsumer("g", "Large", namesrv=cluster.namesrv_address, from_where="first") as consumer:
            async with asyncio.timeout(60):
                while len(found) < COUNT:
                    for message in await consumer.receive(max_messages=32, invisible_ms=50_000):
                        assert len(message.body) == BODY_BYTES
                        found.append(message.body[0])
                        await consumer.ack(message)
    assert sorted(found) == list(range(COUNT))
