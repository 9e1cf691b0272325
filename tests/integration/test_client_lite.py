"""Lite topics by our own client, over real loopback: sent, subscribed to, received in order, acknowledged."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rocketlake import LiteSimpleConsumer, Message, NotRunning, Producer, ProducerConfig, RemoteError, UsageError
from rocketlake.admin import Admin
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.client import sync
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.standalone import Standalone
from rocketlake.store.config import StoreConfig

EXAMPLE = Path(__file__).parents[2] / "examples" / "lite_topics.py"
LONG_MS = 60_000
PARENT = "sessions"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
async def parent(cluster: Standalone) -> None:
    async with Admin(namesrv=cluster.namesrv_address) as admin:
        await admin.create_topic(PARENT, queues=4, attributes="+message.type=LITE")
        await admin.create_group("g", attributes=f"+lite.bind.topic={PARENT},+lite.sub.client.quota=3")


@pytest.fixture
async def producer(cluster: Standalone, parent: None) -> AsyncIterator[Producer]:
    async with Producer("p", namesrv=cluster.namesrv_address) as producer:
        yield producer


@pytest.fixture
async def consumer(cluster: Standalone, parent: None) -> AsyncIterator[LiteSimpleConsumer]:
    async with LiteSimpleConsumer("g", PARENT, namesrv=cluster.namesrv_address) as consumer:
        yield consumer


def lite(name: str, body: str) -> Message:
    return Message(PARENT, body.encode(), lite_topic=name)


async def received(consumer: LiteSimpleConsumer, count: int) -> dict[str, list[str]]:
    """So many messages, acknowledged, by lite topic."""
    found: dict[str, list[str]] = defaultdict(list)
    async with asyncio.timeout(60):
        while sum(map(len, found.values())) < count:
            for message in await consumer.receive(invisible_ms=LONG_MS, await_ms=5000):
                assert message.topic == PARENT
                found[message.lite_topic or ""].append(message.body.decode())
                await consumer.ack(message)
    return dict(found)


async def test_what_is_subscribed_to_comes_in_order_and_once(producer: Producer, consumer: LiteSimpleConsumer) -> None:
    for number in range(40):
        await producer.send(lite("abc"[number % 3], str(number)))
    await consumer.subscribe_lite("a", "c")
    assert consumer.lite_topics == {"a", "c"}
    expected = {name: [str(number) for number in range(40) if "abc"[number % 3] == name] for name in "ac"}
    assert await received(consumer, 27) == expected
    assert await consumer.receive(await_ms=0) == []
    await consumer.unsubscribe_lite("a")
    await consumer.subscribe_lite("b")
    await producer.send(lite("a", "unwanted"))
    assert (await received(consumer, 13)).keys() == {"b"}
    assert await consumer.receive(await_ms=0) == []


async def test_a_receive_that_waits_gets_a_message_of_what_is_subscribed_to_meanwhile(
    producer: Producer, consumer: LiteSimpleConsumer
) -> None:
    await producer.send(lite("late", "1"))
    waiting = asyncio.create_task(consumer.receive(invisible_ms=LONG_MS, await_ms=30_000))
    await asyncio.sleep(0)
    await consumer.subscribe_lite("late")
    async with asyncio.timeout(20):
        (message,) = await waiting
    assert (message.lite_topic, message.body) == ("late", b"1")


async def test_what_is_given_back_comes_again_before_its_later_messages(
    producer: Producer, consumer: LiteSimpleConsumer
) -> None:
    await producer.send(lite("a", "1"))
    await producer.send(lite("a", "2"))
    await consumer.subscribe_lite("a")
    (first,) = await consumer.receive(1, invisible_ms=LONG_MS, await_ms=5000, renew=True)
    await consumer.change_invisible(first, 100)
    (again,) = await consumer.receive(1, invisible_ms=LONG_MS, await_ms=5000)
    assert (again.body, again.reconsume_times) == (b"1", 1)
    await consumer.ack(again)
    assert await received(consumer, 1) == {"a": ["2"]}


@pytest.mark.parametrize(("from_where", "expected"), [("first", ["1", "2", "3"]), ("last", ["3"]), (None, ["2", "3"])])
async def test_from_where_moves_the_group(
    producer: Producer, consumer: LiteSimpleConsumer, from_where: str | None, expected: list[str]
) -> None:
    await producer.send(lite("a", "1"))
    await consumer.subscribe_lite("a")
    await received(consumer, 1)
    await producer.send(lite("a", "2"))
    await consumer.unsubscribe_lite("a")
    await consumer.subscribe_lite("a", from_where=from_where)
    await producer.send(lite("a", "3"))
    assert await received(consumer, len(expected)) == {"a": expected}


async def test_a_broker_that_was_restarted_is_told_the_whole_set(
    cluster: Standalone, producer: Producer, consumer: LiteSimpleConsumer
) -> None:
    await consumer.subscribe_lite("a", "b")
    cluster.broker.lite.subscriptions.clear()
    consumer.instance.net.give_up(cluster.broker.address, "the test wants another link")
    await producer.send(lite("b", "1"))
    async with asyncio.timeout(20):  # not after half a minute
        assert await received(consumer, 1) == {"b": ["1"]}


async def test_a_refusal_names_cause_and_cure(cluster: Standalone, producer: Producer) -> None:
    namesrv = cluster.namesrv_address
    async with LiteSimpleConsumer("g", PARENT, namesrv=namesrv) as consumer:
        with pytest.raises(RemoteError, match=r"3 lite topics, not to 4.*Cure.*lite\.sub\.client\.quota") as refused:
            await consumer.subscribe_lite("a", "b", "c", "d")
        assert refused.value.code == ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
        assert consumer.lite_topics == set()
        await consumer.subscribe_lite("a", "b", "c")
        with pytest.raises(UsageError, match="no name of a lite topic"):
            await consumer.subscribe_lite("a b")
        with pytest.raises(UsageError, match="cannot begin at a time"):
            await consumer.subscribe_lite("a", from_where="timestamp")
    with pytest.raises(NotRunning):
        await consumer.subscribe_lite("a")
    with pytest.raises(RemoteError, match=r"does not exist.*Cure.*lite\.bind\.topic"):
        await LiteSimpleConsumer("nobody", PARENT, namesrv=namesrv).start()
    async with Admin(namesrv=namesrv) as admin:
        await admin.create_topic("usual", queues=1)
        await admin.create_group("free")
        await admin.create_group("wrong", attributes="+lite.bind.topic=usual")
        with pytest.raises(RemoteError, match=r"bound to no topic, not to sessions.*\+lite\.bind\.topic=sessions"):
            await LiteSimpleConsumer("free", PARENT, namesrv=namesrv).start()
        await admin.alter_group("free", attributes=f"+lite.bind.topic={PARENT}")
    async with (
        LiteSimpleConsumer("free", PARENT, namesrv=namesrv),
        LiteSimpleConsumer("wrong", "usual", namesrv=namesrv) as consumer,
    ):
        with pytest.raises(RemoteError, match=r"no parent of lite topics.*Cure.*message\.type=LITE"):
            await consumer.receive(await_ms=1000)


@pytest.mark.parametrize("auto_batch", [False, True])
async def test_each_way_to_send_keeps_a_lite_topic_at_one_broker(
    cluster: Standalone, parent: None, consumer: LiteSimpleConsumer, auto_batch: bool
) -> None:
    config = ProducerConfig(auto_batch=auto_batch)
    async with Producer("p", namesrv=cluster.namesrv_address, config=config) as producer:
        await producer.send(lite("a", "1"))
        producer.send_nowait(lite("a", "2"))
        await producer.flush()
        await producer.send_oneway(lite("a", "3"))
        with pytest.raises(UsageError, match=r"of a lite topic.*one by one"):
            await producer.send_batch([lite("a", "4")])
    await consumer.subscribe_lite("a")
    assert await received(consumer, 3) == {"a": ["1", "2", "3"]}


async def test_a_consumer_of_a_wildcard_group_receives_from_all_lite_topics(
    cluster: Standalone, producer: Producer
) -> None:
    namesrv = cluster.namesrv_address
    async with Admin(namesrv=namesrv) as admin:
        await admin.create_group("all", attributes=f"+lite.bind.topic={PARENT},+lite.sub.wildcard=true")
    for number in range(30):
        await producer.send(lite(f"lite-{number % 10}", str(number)))
    async with LiteSimpleConsumer("all", PARENT, namesrv=namesrv) as consumer:
        expected = {f"lite-{at}": [str(at), str(at + 10), str(at + 20)] for at in range(10)}
        assert await received(consumer, 30) == expected
        waiting = asyncio.create_task(received(consumer, 1))
        await producer.send(lite("new", "1"))
        assert await waiting == {"new": ["1"]}
        with pytest.raises(RemoteError, match=r"gets all lite topics of sessions.*Cure.*-lite\.sub\.wildcard"):
            await consumer.subscribe_lite("a")
        assert consumer.lite_topics == set()


async def test_the_blocking_twin(cluster: Standalone, producer: Producer) -> None:
    await producer.send(lite("a", "1"))

    def work() -> list[bytes]:
        with sync.LiteSimpleConsumer("g", PARENT, namesrv=cluster.namesrv_address) as member:
            member.subscribe_lite("a", "b")
            member.unsubscribe_lite("b")
            assert member.lite_topics == {"a"}
            (message,) = member.receive(await_ms=20_000)
            member.change_invisible(message, LONG_MS)
            member.ack(message)
            assert member.damaged == 0
            return [message.body, *(each.body for each in member.receive(await_ms=0))]

    assert await asyncio.wait_for(asyncio.to_thread(work), 60) == [b"1"]


async def test_the_example(cluster: Standalone) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), cluster.namesrv_address, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert out.decode().splitlines() == ["anna: hello, how are you, bye", "carl: hello, how are you, bye"]


async def test_two_brokers_share_the_lite_topics(tmp_path: Path) -> None:
    """Each lite topic lies on one of them; the consumer is known to both, and waits at both."""
    names = [f"session-{number}" for number in range(20)]
    async with AsyncExitStack() as stack:
        config = NameServerConfig(listen_host="127.0.0.1", listen_port=0, kv_config_path=tmp_path / "kv.json")
        server = await stack.enter_async_context(NameServer(config))
        brokers = [new_broker(tmp_path, name, server.address) for name in ("one", "two")]
        for broker in brokers:
            await stack.enter_async_context(broker)
        admin = await stack.enter_async_context(Admin(namesrv=server.address))
        await admin.create_topic(PARENT, queues=2, attributes="+message.type=LITE")
        await admin.create_group("g", attributes=f"+lite.bind.topic={PARENT}")
        producer = await stack.enter_async_context(Producer("p", namesrv=server.address))
        consumer = await stack.enter_async_context(LiteSimpleConsumer("g", PARENT, namesrv=server.address))
        await consumer.subscribe_lite(*names)
        for number in range(60):
            await producer.send(lite(names[number % 20], str(number)))
        found = await received(consumer, 60)
        assert found == {name: [str(at), str(at + 20), str(at + 40)] for at, name in enumerate(names)}
        shares = [len(broker.lite.queues) for broker in brokers]
        assert sum(shares) == 20 and min(shares) > 0, "each lite topic is on one broker"
        assert [broker.lite.subscriptions.count for broker in brokers] == [20, 20]
        waiting = asyncio.create_task(received(consumer, 20))
        for name in names:
            await producer.send(lite(name, "late"))
        assert await waiting == {name: ["late"] for name in names}, "it waits at both"
    assert [broker.lite.subscriptions.count for broker in brokers] == [0, 0], "it has said that it leaves"


def new_broker(folder: Path, name: str, namesrv: str) -> Broker:
    store = StoreConfig(commit_log_file_bytes=1024 * 1024, index_slots=100, index_entries=1000)
    config = BrokerConfig(
        broker_name=name, listen_port=0, fast_listen_port=0, store_root=folder / name, namesrv_addresses=(namesrv,)
    )
    return Broker(config, store)
