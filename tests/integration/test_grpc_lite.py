"""Exclusive and wildcard groups of lite topics by gRPC, beside a broker and by a proxy that stands alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketlake.admin import Admin
from rocketlake.proxy.alone import ProxyAlone
from rocketlake.proxy.beside import WithProxy
from rocketlake.proxy.config import load_proxy_conf
from rocketlake.proxy.proxy import Proxy
from rocketlake.proxy.v2 import messages as v2
from rocketlake.standalone import Standalone
from tests.grpc_client import GrpcClient, client_of, until

PARENT = v2.Resource(name="Parent")


class _LiteClient:
    """A lite consumer by calls; what it is told comes by a connection of its own."""

    def __init__(self, client: GrpcClient, told: GrpcClient, group: str) -> None:
        self.client = client
        self._group = v2.Resource(name=group)
        self._told = told
        self._stream = 0

    async def greet(self) -> None:
        entry = v2.SubscriptionEntry(topic=PARENT)
        settings = v2.Settings(
            client_type=v2.ClientType.LITE_SIMPLE_CONSUMER,
            subscription=v2.Subscription(group=self._group, subscriptions=[entry]),
        )
        peer = self._told.peer
        self._stream = peer.begin("/apache.rocketmq.v2.MessagingService/Telemetry", *self._told.headers)
        peer.send(self._stream, v2.TelemetryCommand(settings=settings).SerializeToString())
        assert (await self.told(1))[0].settings.subscription.lite_subscription_quota == 2000

    async def told(self, count: int) -> list[Any]:
        """So many commands, from the first on."""
        while len(messages := self._told.peer.answers[self._stream].messages) < count:
            assert await self._told.peer.read()
        return [v2.TelemetryCommand.FromString(each) for each in messages]

    async def sync(self, action: int, *lites: str) -> None:
        request = v2.SyncLiteSubscriptionRequest(action=action, topic=PARENT, group=self._group, lite_topic_set=lites)
        assert (await self.client.call("SyncLiteSubscription", request)).status.code == v2.Code.OK


@asynccontextmanager
async def _lite_client(proxy: Proxy, client_id: str, group: str = "g") -> AsyncIterator[_LiteClient]:
    async with client_of(proxy, client_id) as client, client_of(proxy, client_id) as told:
        made = _LiteClient(client, told, group)
        await made.greet()
        yield made


@pytest.fixture(params=["beside", "alone"])
async def proxy(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Proxy]:
    cluster = Standalone(tmp_path / "cluster", settings={"grpcServerPort": 0})
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(WithProxy(cluster, lambda: cluster.broker))
        async with Admin(namesrv=cluster.namesrv_address) as admin:
            await admin.create_topic("Parent", queues=4, attributes="+message.type=LITE")
            await admin.create_group("g", attributes="+lite.bind.topic=Parent,+lite.sub.model=Exclusive")
            await admin.create_group("all", attributes="+lite.bind.topic=Parent,+lite.sub.wildcard=true")
        await until(lambda: cluster.broker.lite.queues.is_ready)
        if request.param == "beside":
            assert server.proxy is not None
            yield server.proxy
            return
        settings = {"grpcServerPort": 0, "namesrvAddr": cluster.namesrv_address}
        yield (await stack.enter_async_context(ProxyAlone(load_proxy_conf(None, settings)))).proxy


async def test_the_client_that_lost_a_lite_topic_is_told_by_telemetry(proxy: Proxy) -> None:
    add, whole = v2.LiteSubscriptionAction.PARTIAL_ADD, v2.LiteSubscriptionAction.COMPLETE_ADD
    async with _lite_client(proxy, "old") as old, _lite_client(proxy, "new") as new:
        await old.sync(add, "a", "b")
        await new.sync(add, "a")
        _, command = await old.told(2)
        assert command.notify_unsubscribe_lite_command.lite_topic == "a"
        await old.client.send("Parent", b"one", lite_topic="a")
        (message,) = await new.client.receive("Parent", "g")
        assert (message.body, message.system_properties.lite_topic) == (b"one", "a")
        await old.sync(whole, "a", "b")
        assert (await old.told(3))[2].notify_unsubscribe_lite_command.lite_topic == "a"
        await new.sync(whole, "a")
        await old.client.send("Parent", b"two", lite_topic="b")
        (message,) = await old.client.receive("Parent", "g")
        assert (message.body, message.system_properties.lite_topic) == (b"two", "b")


async def test_a_client_of_a_wildcard_group_receives_from_all_lite_topics(proxy: Proxy) -> None:
    async with _lite_client(proxy, "c", "all") as lite:
        client, found = lite.client, list[tuple[str, bytes]]()
        for name, body in (("a", b"1"), ("b", b"2"), ("a", b"3")):
            await client.send("Parent", body, lite_topic=name)
        while len(found) < 3:
            messages = await client.receive("Parent", "all")
            for each in messages:
                found.append((each.system_properties.lite_topic, each.body))
                assert (await client.ack("Parent", "all", each)).status.code == v2.Code.OK
        assert sorted(found) == [("a", b"1"), ("a", b"3"), ("b", b"2")]
        action, group = v2.LiteSubscriptionAction.PARTIAL_ADD, v2.Resource(name="all")
        add = v2.SyncLiteSubscriptionRequest(action=action, topic=PARENT, group=group, lite_topic_set=["a"])
        refused = (await client.call("SyncLiteSubscription", add)).status
        assert refused.code != v2.Code.OK and "gets all lite topics" in refused.message
