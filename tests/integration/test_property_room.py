"""Messages whose properties are as long as RocketMQ allows: what becomes of the broker's own copies of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import (
    Consumer,
    ConsumerConfig,
    ConsumeResult,
    Message,
    Producer,
    PushConsumer,
    TransactionEnd,
    TransactionProducer,
)
from rocketlake.base.errors import RemoteError
from rocketlake.broker.sends.copy_room import HALF_ROOM_BYTES
from rocketlake.codec.record_layout import PROPERTIES_BYTES_MAX
from rocketlake.codec.record_parts import properties_block
from rocketlake.model.message import StoredMessage
from rocketlake.standalone import Standalone

SETTINGS = {
    "messageDelayLevel": " ".join(["1s"] * 18),
    "transactionCheckInterval": "100",
    "transactionTimeOut": "50",
    "transactionOpBatchInterval": "20",
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster", settings=SETTINGS) as cluster:
        yield cluster


def properties_bytes(cluster: Standalone, topic: str, queue_id: int = 0) -> int:
    """Bytes of the properties of a queue's first message, as it is stored."""
    store = cluster.broker.store
    ((place, _size, _tag),) = store.queue_entries(topic, queue_id, 0, 1)
    record = store.read_record(place)
    assert record is not None
    return len(properties_block(record))


def filled(topic: str, body: bytes, bytes_: int) -> Message:
    return Message(topic, body, properties={"big": "x" * bytes_})


@pytest.mark.parametrize(("orderly", "raises"), [(False, False), (True, False), (False, True), (True, True)])
async def test_a_message_without_room_for_the_marks_of_a_retry_becomes_a_dead_letter(
    cluster: Standalone, orderly: bool, raises: bool
) -> None:
    namesrv = cluster.namesrv_address
    seen: list[bytes] = []
    passed = asyncio.Event()

    async def failing(messages: list[StoredMessage]) -> ConsumeResult:
        seen.append(messages[0].body)
        if messages[0].body == b"good":
            passed.set()
        if raises and messages[0].body == b"poison":
            raise ValueError("a last error, for which there is no room either")
        return ConsumeResult.LATER if messages[0].body == b"poison" else ConsumeResult.SUCCESS

    async with Producer("senders", namesrv=namesrv) as producer:
        probe = await producer.send(filled("Full", b"probe", 1), key=1)
        room = PROPERTIES_BYTES_MAX - properties_bytes(cluster, "Full", probe.queue.queue_id) + 1
        await producer.send(filled("Full", b"poison", room), key=1)
        with pytest.raises(RemoteError, match="32768 bytes"):
            await producer.send(filled("Full", b"too long", room + 1), key=1)
        await producer.send(filled("Full", b"good", 1), key=1)
    consumer = PushConsumer(
        "victims", namesrv=namesrv, listener=failing, from_where="first", orderly=orderly,
        config=ConsumerConfig(reconsume_max=1, suspend_ms=10),
    )  # fmt: skip
    consumer.subscribe("Full")
    async with consumer, Consumer("undertaker", "%DLQ%victims", namesrv=namesrv, from_where="first") as dead:
        async with asyncio.timeout(30):
            buried = await anext(dead)
            await passed.wait()
    assert buried.body == b"poison"
    assert buried.properties["big"] == "x" * room
    assert buried.unique_key is not None
    assert seen.count(b"poison") == (2 if orderly else 1)
    assert cluster.broker.store.max_offset("%DLQ%victims", 0) == 1


async def test_a_half_message_without_room_for_its_checks_is_refused_and_one_with_it_is_checked(
    cluster: Standalone,
) -> None:
    asked: list[bytes] = []
    done: list[bytes] = []

    async def check(message: StoredMessage) -> TransactionEnd:
        asked.append(message.body)
        return TransactionEnd.COMMIT if asked.count(message.body) == 2 else TransactionEnd.UNKNOWN

    def local(message: Message) -> TransactionEnd:
        done.append(message.body)
        return TransactionEnd.UNKNOWN

    namesrv = cluster.namesrv_address
    async with TransactionProducer("payers", check=check, namesrv=namesrv) as producer:
        await producer.send_in_transaction(filled("paid", b"probe", 1), local)
        room = PROPERTIES_BYTES_MAX - HALF_ROOM_BYTES - properties_bytes(cluster, "RMQ_SYS_TRANS_HALF_TOPIC") + 1
        with pytest.raises(RemoteError, match="leave room for its checks"):
            await producer.send_in_transaction(filled("paid", b"too long", room + 1), local)
        await producer.send_in_transaction(filled("paid", b"full", room), local)
        async with Consumer("readers", "paid", namesrv=namesrv, from_where="first") as consumer:
            async with asyncio.timeout(20):
                found = {message.body: message for message in [await anext(consumer), await anext(consumer)]}
    assert done == [b"probe", b"full"]
    assert found[b"full"].properties["big"] == "x" * room
