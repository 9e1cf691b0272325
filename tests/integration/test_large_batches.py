"""Batches of thousands of messages are taken as Apache takes them: whole, in order, and without keeping the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from rocketlake.base.errors import LinkError
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model import property_names as names
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.send import SendHeaderV2
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig

COUNT = 40_000


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def send(messages: Sequence[Message], queue_id: int = 0, properties: str = "") -> Command:
    header = SendHeaderV2(
        producer_group="p",
        topic="T",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties=properties,
        reconsume_times=0,
        unit_mode=False,
        batch=True,
    )
    return Command.request(Code.SEND_MESSAGE_V2, header, encode_batch(messages))


def numbered(count: int) -> list[Message]:
    return [Message("T", b"%d" % number, properties={"own": str(number)}) for number in range(count)]


def stored(broker: Broker, queue_id: int) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    while True:
        got = broker.store.get("T", queue_id, len(found), 4096, 1 << 24)
        if not got.slices:
            return found
        found += decode_records(b"".join(got.slices))


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    config = BrokerConfig(
        store_root=tmp_path, listen_port=0, fast_listen_port=0, advertised_host="127.0.0.1", send_age_max_ms=60_000
    )
    async with Broker(config, StoreConfig(commit_log_file_bytes=1 << 24)) as broker:
        broker.topics.put(TopicConfig("T"))
        yield broker


async def test_a_large_batch_is_stored_whole_and_in_order_and_others_are_served_meanwhile(broker: Broker) -> None:
    async with NetClient() as client, NetClient() as other:
        await other.invoke(broker.address, send(numbered(1)))  # connected
        large = client.invoke(broker.address, send(numbered(COUNT), queue_id=1), 60_000)
        task = asyncio.ensure_future(large)
        served = 0
        while not task.done():
            answer = await other.invoke(broker.address, send(numbered(3)))
            assert answer.code == ResponseCode.SUCCESS
            served += 1
        answer = await task
    assert answer.code == ResponseCode.SUCCESS
    assert served > 5
    ids = (answer.fields or {})["msgId"].split(",")
    assert len(ids) == COUNT
    await until(lambda: broker.store.max_offset("T", 1) == COUNT)
    messages = stored(broker, 1)
    assert [message.body for message in messages] == [b"%d" % number for number in range(COUNT)]
    assert [message.queue_offset for message in messages] == list(range(COUNT))
    assert [message.offset_message_id for message in messages] == ids
    assert {message.store_ms for message in messages} == {messages[0].store_ms}
    assert messages[7].properties["own"] == "7" and messages[7].properties[names.CLUSTER]
    assert len(stored(broker, 0)) == 1 + 3 * served


async def test_of_a_large_batch_that_is_not_good_nothing_is_stored(broker: Broker) -> None:
    messages = numbered(COUNT)
    messages[-1].properties[names.DELAY] = "3"
    async with NetClient() as client:
        answer = await client.invoke(broker.address, send(messages), 60_000)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL and "delayed" in (answer.remark or "")
        good = send(numbered(COUNT))
        good.body = good.body_bytes[:-1]
        answer = await client.invoke(broker.address, good, 60_000)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        numbers = f"{names.PRODUCER_SEQUENCE}\x01q/0/0/x/0\x02"
        answer = await client.invoke(broker.address, send(numbered(5000), properties=numbers), 60_000)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL and "4096" in (answer.remark or "")
    assert broker.store.max_physical_offset == 0


async def test_a_topic_deleted_while_the_batch_is_made_ready_gets_nothing(broker: Broker) -> None:
    async with NetClient() as client, NetClient() as other:
        await other.invoke(broker.address, send(numbered(1)))
        log_end = broker.store.max_physical_offset
        task = asyncio.ensure_future(client.invoke(broker.address, send(numbered(COUNT)), 60_000))
        await until(lambda: any(link.held for server in broker._servers for link in server.links))
        broker.topics.delete("T")
        answer = await task
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert broker.store.max_physical_offset == log_end


async def test_a_batch_whose_sender_has_gone_is_not_stored(broker: Broker) -> None:
    async with NetClient() as other:
        await other.invoke(broker.address, send(numbered(1)))
        log_end = broker.store.max_physical_offset
        async with NetClient() as client:
            task = asyncio.ensure_future(client.invoke(broker.address, send(numbered(COUNT)), 60_000))
            await until(lambda: any(link.held for server in broker._servers for link in server.links))
        with pytest.raises(LinkError):
            await task
        answer = await other.invoke(broker.address, send(numbered(COUNT), queue_id=2), 60_000)  # behind it in the line
    assert answer.code == ResponseCode.SUCCESS
    assert broker.store.log.view(log_end, 1) is not None
    assert (answer.fields or {})["msgId"][16:32] == f"{log_end:016X}"
