"""SQL92 filters from end to end: our client and raw requests on our broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import Consumer, Message, Producer, PullConsumer, PushConsumer
from rocketlake.base.errors import UsageError
from rocketlake.client.calls import group as calls
from rocketlake.codec.record import decode_records
from rocketlake.model.subscription import SQL92
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.heartbeat import ClientConfigCheck, ConsumerEntry, SubscriptionEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.pull import PULL_SUBSCRIPTION, PULL_SUSPEND, PullHeader, PullReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.standalone import Standalone
from tests.stored import known_queues

FILTER = "price > 100 AND region IN ('eu', 'us')"
REGIONS = ("eu", "us", "asia")
WANTED = {n for n in range(300) if n > 100 and REGIONS[n % 3] in ("eu", "us")}


def order(number: int, topic: str = "Orders") -> Message:
    properties = {"price": str(number), "region": REGIONS[number % 3]}
    return Message(topic, str(number).encode(), properties=properties)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster", settings={"enablePropertyFilter": "true"}) as cluster:
        yield cluster


@pytest.fixture
async def orders(cluster: Standalone) -> AsyncIterator[Producer]:
    """300 orders are in the topic."""
    async with Producer("senders", namesrv=cluster.namesrv_address) as producer:
        for n in range(300):
            await producer.send(order(n))
        yield producer


async def test_a_push_consumer_gets_what_matches_now_and_later(cluster: Standalone, orders: Producer) -> None:
    found: set[int] = set()
    enough = asyncio.Event()

    def listener(messages: list[Message]) -> None:
        found.update(int(message.body) for message in messages)
        if len(found) == len(WANTED) or 1001 in found:
            enough.set()

    consumer = PushConsumer("by_price", namesrv=cluster.namesrv_address, listener=listener, from_where="first")
    consumer.subscribe("Orders", FILTER, SQL92)
    async with consumer, asyncio.timeout(30):
        await enough.wait()
        assert found == WANTED
        enough.clear()
        # The pulls are held by now, or soon: 1000 % 3 == 1 ("us"), 1001 % 3 == 2 ("asia"), 1002 % 3 == 0 ("eu").
        for number in (50, 1001, 1000, 1002):
            await orders.send(order(number))
        while {1000, 1002} - found:  # noqa: ASYNC110  (what is awaited happens in the listener)
            await asyncio.sleep(0.02)
    assert found == WANTED | {1000, 1002}


async def test_a_pull_consumer_and_async_for(cluster: Standalone, orders: Producer) -> None:
    async with PullConsumer("pulling", namesrv=cluster.namesrv_address) as consumer:
        consumer.assign(await known_queues(consumer, "Orders"), FILTER, SQL92)
        await consumer.seek_to_begin()
        found: set[int] = set()
        async with asyncio.timeout(30):
            while found != WANTED:
                found |= {int(message.body) for message in await consumer.poll(timeout_ms=5000)}
    namesrv = cluster.namesrv_address
    async with Consumer("loop", "Orders", "price = 7", SQL92, namesrv=namesrv, from_where="first") as loop:
        message = await loop.receive(timeout_ms=20_000)
        assert message is not None and message.body == b"7"


async def test_a_wrong_expression_is_refused_before_anything_is_asked(cluster: Standalone) -> None:
    consumer = PushConsumer("wrong", namesrv=cluster.namesrv_address, listener=print)
    with pytest.raises(UsageError, match=r"line 1, column 7") as refused:
        consumer.subscribe("Orders", "price LIKE '1%'", SQL92)
    assert str(refused.value).endswith("  price LIKE '1%'\n        ^")
    with pytest.raises(UsageError, match="expression_type"):
        consumer.subscribe("Orders", "price", "XPATH")


async def test_a_broker_without_the_setting_is_named_at_the_start(tmp_path: Path) -> None:
    async with Standalone(tmp_path / "plain") as plain:
        async with Producer("senders", namesrv=plain.namesrv_address) as producer:
            await producer.send(order(1))
        consumer = PushConsumer("by_price", namesrv=plain.namesrv_address, listener=print)
        consumer.subscribe("Orders", FILTER, SQL92)
        with pytest.raises(UsageError, match="enablePropertyFilter=true"):
            await consumer.start()
        assert not consumer.is_running


class Asker:
    """Raw requests to the cluster's broker."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.net = NetClient()

    async def ask(self, code: int, header: PullHeader | None = None, body: bytes | None = None) -> Command:
        return await self.net.invoke(self.address, Command.request(code, header, body), 10_000)

    async def check(self, expression: str, expression_type: str = SQL92) -> Command:
        entry = SubscriptionEntry(topic="Raw", sub_string=expression, expression_type=expression_type)
        return await self.ask(RequestCode.CHECK_CLIENT_CONFIG, body=ClientConfigCheck(subscription=entry).encode())

    async def pull(self, expression: str | None, offset: int = 0, wait_ms: int = 0, version: int = 0) -> Command:
        """None: the expression of the group's heartbeat."""
        flags = (PULL_SUSPEND if wait_ms else 0) | (0 if expression is None else PULL_SUBSCRIPTION)
        header = PullHeader(
            consumer_group="raw",
            topic="Raw",
            queue_id=0,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=flags,
            commit_offset=0,
            suspend_timeout_millis=wait_ms,
            sub_version=version,
            subscription=expression,
            expression_type=SQL92,
        )
        return await self.ask(RequestCode.PULL_MESSAGE, header)

    async def beat(self, expression: str, version: int) -> None:
        entry = SubscriptionEntry(topic="Raw", sub_string=expression, expression_type=SQL92, sub_version=version)
        consumer = ConsumerEntry(group_name="raw", subscriptions=[entry])
        await calls.heartbeat(self.net, self.address, calls.heartbeat_body("raw-client", (), [consumer]))


@pytest.fixture
async def asker(cluster: Standalone) -> AsyncIterator[Asker]:
    async with Producer("senders", namesrv=cluster.namesrv_address) as producer:
        await producer.send(order(0, "Raw"), selector=lambda queues, _: queues[0])
    asker = Asker(cluster.broker_address)
    yield asker
    await asker.net.close()


def bodies(answer: Command) -> list[bytes]:
    return [message.body for message in decode_records(answer.body_bytes)] if answer.body else []


async def send(cluster: Standalone, *numbers: int) -> None:
    async with Producer("senders", namesrv=cluster.namesrv_address) as producer:
        for number in numbers:
            await producer.send(order(number, "Raw"), selector=lambda queues, _: queues[0])


async def test_the_check_of_a_client(asker: Asker) -> None:
    assert (await asker.check("price > 5")).code == ResponseCode.SUCCESS
    assert (await asker.check("A || B", "TAG")).code == ResponseCode.SUCCESS
    wrong = await asker.check("price > 'x'")
    assert wrong.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "line 1, column 9" in wrong.remark
    assert (await asker.check("x", "XPATH")).code == ResponseCode.SYSTEM_ERROR


async def test_refusals_of_pulls_have_apaches_codes(asker: Asker) -> None:
    wrong = await asker.pull("price >")
    assert (wrong.code, "column 8" in wrong.remark) == (ResponseCode.SUBSCRIPTION_PARSE_FAILED, True)
    await asker.beat("price >", version=1)
    assert (await asker.pull(None, version=1)).code == ResponseCode.FILTER_DATA_NOT_EXIST
    await asker.beat("price >= 0", version=2)
    assert (await asker.pull(None, version=3)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    answer = await asker.pull(None, version=2)
    assert (answer.code, bodies(answer)) == (ResponseCode.SUCCESS, [b"0"])


async def test_the_setting_may_change_while_the_broker_runs(cluster: Standalone, asker: Asker) -> None:
    cluster.broker.config.update({"enablePropertyFilter": "false"})
    refused = await asker.pull("price > 5")
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert refused.remark == "The broker does not support consumer to filter message by SQL92"


async def pull_to_end(asker: Asker, expression: str, end: int) -> list[bytes]:
    """The bodies found up to `end`. One pull may test a part of them only: the time it may take is bounded."""
    offset, found = 0, []
    while offset < end:
        answer = await asker.pull(expression, offset=offset)
        if answer.code != ResponseCode.SUCCESS:
            assert (answer.code, answer.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
        found += bodies(answer)
        behind = answer.header(PullReplyHeader).next_begin_offset
        assert offset < behind <= end
        offset = behind
    return found


async def test_a_pull_over_messages_that_do_not_match_goes_on_behind_them(cluster: Standalone, asker: Asker) -> None:
    await send(cluster, 1, 2, 7)
    assert await pull_to_end(asker, "price = 7", 4) == [b"7"]
    assert await pull_to_end(asker, "price = 8", 4) == []


async def test_a_held_pull_is_woken_by_what_matches_only(cluster: Standalone, asker: Asker) -> None:
    waiting = asyncio.create_task(asker.pull("price = 7", offset=1, wait_ms=9000))
    async with asyncio.timeout(5):
        while not cluster.broker.reading.hold.has_waiters(("Raw", 0)):  # noqa: ASYNC110  (the broker is asked by its own link)
            await asyncio.sleep(0.01)
    await send(cluster, 1, 2, 3)
    assert not waiting.done() and cluster.broker.reading.hold.has_waiters(("Raw", 0))
    await send(cluster, 7)
    answer = await waiting
    assert (bodies(answer), answer.header(PullReplyHeader).next_begin_offset) == ([b"7"], 5)
