"""RecallMessage beside a broker: what comes of it, and what it refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rocketlake.admin import Admin
from rocketlake.base.clock import SystemClock
from rocketlake.proxy.beside import WithProxy
from rocketlake.proxy.convert.times import timestamp
from rocketlake.proxy.v2 import messages as v2
from rocketlake.standalone import Standalone
from tests.grpc_client import GrpcClient, client_of


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[GrpcClient]:
    cluster = Standalone(tmp_path / "cluster", settings={"grpcServerPort": 0})
    async with WithProxy(cluster, lambda: cluster.broker) as server:
        assert server.proxy is not None
        async with Admin(namesrv=cluster.namesrv_address) as admin:
            await admin.create_topic("T", queues=1)
            await admin.create_topic("Other", queues=1)
        async with client_of(server.proxy) as client:
            yield client


async def send_for_later(client: GrpcClient, body: bytes, seconds: float) -> Any:
    """The entry of the answer."""
    due = timestamp(SystemClock().now_ms() + int(seconds * 1000))
    request = client.sending("T", body, delivery_timestamp=due)
    request.messages[0].system_properties.message_id = body.decode()  # one with a blank gets no handle
    return (await client.call("SendMessage", request)).entries[0]


async def recall(client: GrpcClient, handle: str, topic: str = "T") -> Any:
    request = v2.RecallMessageRequest(topic=v2.Resource(name=topic), recall_handle=handle)
    return await client.call("RecallMessage", request)


async def test_a_recalled_message_does_not_come_and_the_others_do(client: GrpcClient) -> None:
    recalled = await send_for_later(client, b"recalled", 2)
    await send_for_later(client, b"kept", 2)
    answer = await recall(client, recalled.recall_handle)
    assert (answer.status.code, answer.message_id) == (v2.Code.OK, "recalled")
    assert [each.body for each in await client.receive("T", "g")] == [b"kept"]


async def test_what_cannot_be_recalled_says_why(client: GrpcClient) -> None:
    entry = await send_for_later(client, b"later", 60)
    assert (await recall(client, "no handle")).status.code == v2.Code.BAD_REQUEST
    assert (await recall(client, entry.recall_handle, "Other")).status.code == v2.Code.ILLEGAL_TOPIC
    plain = (await client.send("T", b"at once")).entries[0]
    assert plain.recall_handle == "", "a message that is due has none"
    late = await send_for_later(client, b"soon", 1)
    assert b"soon" in [each.body for _ in range(2) for each in await client.receive("T", "g")]
    assert (await recall(client, late.recall_handle)).status.code == v2.Code.BAD_REQUEST
