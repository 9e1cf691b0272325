"""Exclusive groups of lite topics by our own client: who subscribes takes, who has lost is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from rocketlake import ClientConfig, LiteSimpleConsumer, Producer
from rocketlake.admin import Admin
from rocketlake.base.errors import LinkError
from rocketlake.client.instance import ClientInstance
from rocketlake.net.network import TcpNetwork
from rocketlake.standalone import Standalone
from tests.grpc_client import until
from tests.integration.test_client_lite import LONG_MS, PARENT, lite, received
from tests.integration.test_client_lite import cluster as cluster
from tests.integration.test_client_lite import parent as parent
from tests.integration.test_client_lite import producer as producer


@pytest.fixture
async def old(cluster: Standalone, parent: None) -> AsyncIterator[LiteSimpleConsumer]:
    async with Admin(namesrv=cluster.namesrv_address) as admin:
        await admin.alter_group("g", attributes="+lite.sub.model=Exclusive")
    async with LiteSimpleConsumer("g", PARENT, namesrv=cluster.namesrv_address) as consumer:
        yield consumer


@pytest.fixture
async def new(cluster: Standalone, old: LiteSimpleConsumer) -> AsyncIterator[LiteSimpleConsumer]:
    async with LiteSimpleConsumer("g", PARENT, namesrv=cluster.namesrv_address) as consumer:
        yield consumer


async def until_left(consumer: LiteSimpleConsumer, *lites: str) -> None:
    async with asyncio.timeout(20):
        await until(lambda: consumer.lite_topics == set(lites))


async def test_a_lite_topic_goes_to_the_consumer_that_subscribes_last(
    producer: Producer, old: LiteSimpleConsumer, new: LiteSimpleConsumer
) -> None:
    await old.subscribe_lite("a", "b")
    await producer.send(lite("a", "1"))
    await producer.send(lite("a", "2"))
    (held,) = await old.receive(1, invisible_ms=LONG_MS, await_ms=20_000)
    waiting = asyncio.create_task(received(new, 1))
    await new.subscribe_lite("a")
    await until_left(old, "b")
    await old.ack(held)
    assert await waiting == {"a": ["2"]}
    await old.subscribe_lite("a")
    await until_left(new)
    await producer.send(lite("a", "3"))
    assert await received(old, 1) == {"a": ["3"]}


async def test_two_that_take_it_from_each_other_end_with_one_owner(
    cluster: Standalone, producer: Producer, old: LiteSimpleConsumer, new: LiteSimpleConsumer
) -> None:
    for _ in range(20):
        await asyncio.gather(old.subscribe_lite("a"), new.subscribe_lite("a"))
    await producer.send(lite("a", "1"))
    (owner,) = cluster.broker.lite.subscriptions.of_lite(PARENT, "a")
    consumer = old if owner.client_id == old.instance.client_id else new
    assert await received(consumer, 1) == {"a": ["1"]}
    assert "a" in consumer.lite_topics


async def test_a_consumer_hears_again_what_it_has_lost(
    cluster: Standalone, old: LiteSimpleConsumer, new: LiteSimpleConsumer
) -> None:
    await old.subscribe_lite("a", "b")
    subscriber = cluster.broker.lite.subscriptions.get(old.instance.client_id, "g")
    assert subscriber is not None
    subscriber.asker = None  # the word is lost
    await new.subscribe_lite("a")
    assert old.lite_topics == {"a", "b"}
    old.instance.net.give_up(cluster.broker.address, "the test wants another link")
    await old.receive(await_ms=0)
    await until_left(old, "b")
    assert new.lite_topics == {"a"}


class _Cut(TcpNetwork):
    """No connection comes to one address."""

    address = ""

    async def connect(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Protocol:
        if self.address == f"{host}:{port}":
            raise LinkError(f"{self.address} is away")
        return await super().connect(make_link, host, port)


async def test_a_broker_that_was_away_is_told_that_the_lite_topic_was_taken(
    cluster: Standalone, producer: Producer, old: LiteSimpleConsumer
) -> None:
    await old.subscribe_lite("a")
    network = _Cut()
    config = ClientConfig(namesrv=cluster.namesrv_address, instance_name="cut", call_timeout_ms=1000)
    async with (
        ClientInstance(config, network=network) as instance,
        LiteSimpleConsumer("g", PARENT, instance=instance) as new,
    ):
        network.address = cluster.broker.address
        instance.net.give_up(network.address, "the test cuts it")
        await new.subscribe_lite("a")
        assert old.lite_topics == new.lite_topics == {"a"}
        network.address = ""
        await producer.send(lite("a", "1"))
        assert await received(new, 1) == {"a": ["1"]}
        assert (old.lite_topics, new.lite_topics) == (set(), {"a"})
