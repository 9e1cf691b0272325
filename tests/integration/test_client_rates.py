"""What a running consumer of ours says of its pace, asked as an administrator asks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketlake import ConsumerConfig, ConsumeResult, Message, Producer, PushConsumer, StoredMessage
from rocketlake.admin import Admin, ConsumeRate
from rocketlake.standalone import Standalone


@pytest.mark.parametrize("pops", [False, True])
async def test_a_member_tells_its_rates_by_topic(tmp_path: Path, pops: bool) -> None:
    seen = asyncio.Event()
    bodies: list[bytes] = []

    async def listen(messages: list[StoredMessage]) -> ConsumeResult:
        bodies.extend(message.body for message in messages)
        if len(bodies) >= 3:
            seen.set()
        return ConsumeResult.LATER if messages[0].body == b"bad" else ConsumeResult.SUCCESS

    async with Standalone(tmp_path) as cluster, Admin(namesrv=cluster.namesrv_address) as admin:
        await admin.create_topic("orders", queues=1)
        await admin.create_group("kitchen")
        if pops:
            await admin.set_consume_mode("kitchen", "orders", "pop")
        config = ConsumerConfig(client_rebalance=not pops)
        consumer = PushConsumer(
            "kitchen",
            listener=listen,
            namesrv=cluster.namesrv_address,
            from_where="first",
            config=config,
        )
        consumer.subscribe("orders")
        async with consumer, Producer("senders", namesrv=cluster.namesrv_address) as producer:
            for body in (b"good", b"bad", b"good"):
                await producer.send(Message("orders", body))
            async with asyncio.timeout(60):
                await seen.wait()
                while not (rates := await _rates(admin)) or not rates["orders"].failed_per_second:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
    assert rates["orders"].done_per_second > 0
    assert rates["orders"].took_ms >= 0
    assert rates.keys() == {"orders", "%RETRY%kitchen"}


async def _rates(admin: Admin) -> dict[str, ConsumeRate]:
    (member,) = (await admin.group("kitchen")).members
    return dict(member.rates)
