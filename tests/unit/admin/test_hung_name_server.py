"""A name server that accepts and is silent costs a command no time, wherever it is named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.replicas.asked import ClusterReplicas
from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError
from rocketlake.model.route import BrokerInfo, QueueInfo, Route
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.memory_net import MemoryNet
from rocketlake.net.request import HELD, Handler, Reply
from rocketlake.net.server import Server
from rocketlake.protocol.bodies.replicas import GroupsView
from rocketlake.protocol.bodies.route import RouteBody
from rocketlake.protocol.bodies.stats import TopicList
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

T = TypeVar("T")
ROUTE = Route(queues=[QueueInfo("b", 1, 1)], brokers=[BrokerInfo("c", "b", {0: "broker:10911"})])
OF_NAME_SERVER: dict[int, Handler] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: lambda _: Reply(ResponseCode.TOPIC_NOT_EXIST),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: lambda _: Reply(body=TopicList(topics=["T"]).encode()),
}
OF_CONTROLLER: dict[int, Handler] = {RequestCode.CONTROLLER_GET_GROUPS: lambda _: Reply(body=GroupsView().encode())}
EVERY_CODE = [RequestCode.DELETE_TOPIC_IN_NAMESRV, *OF_NAME_SERVER, *OF_CONTROLLER]


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.net = MemoryNet(clock=self.clock)
        self.servers: list[Server] = []

    async def serve(self, host: str, handlers: dict[int, Handler], port: int = 9876) -> None:
        rows = [Row(code, handler, ANYBODY) for code, handler in handlers.items()]
        server = Server(Dispatcher(rows), host=host, port=port, clock=self.clock, network=self.net.host(host))
        await server.start()
        self.servers.append(server)

    async def at_once(self, names: str, work: Callable[[Cluster], Awaitable[T]]) -> T:
        """The outcome of a command that is done before any time has passed."""

        async def command() -> T:
            async with Cluster(names, NetClient(clock=self.clock, network=self.net.host("cli"))) as cluster:
                return await work(cluster)

        task = asyncio.create_task(command())
        await self.clock.settle()
        if not task.done():
            await self.clock.run_for(60_000)
            await asyncio.wait((task,))
        assert self.clock.monotonic() == 0
        return await task


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.serve("hung", dict.fromkeys(EVERY_CODE, lambda _: HELD))
    await world.serve("plain", OF_NAME_SERVER)
    await world.serve("full", OF_NAME_SERVER | OF_CONTROLLER)
    yield world
    for server in world.servers:
        await server.stop(drain_seconds=0)


@pytest.mark.parametrize("names", ["hung:9876;full:9876", "full:9876;hung:9876"])
async def test_questions_about_topics(world: World, names: str) -> None:
    for _ in range(8):  # which one is asked first is drawn
        assert await world.at_once(names, lambda cluster: cluster.topics()) == ["T"]


@pytest.mark.parametrize("names", ["hung:9876;full:9876", "plain:9876;hung:9876;full:9876"])
async def test_questions_about_replicas(world: World, names: str) -> None:
    assert await world.at_once(names, lambda cluster: ClusterReplicas(cluster).groups()) == []


async def test_a_start_that_is_given_up_leaves_no_link(world: World) -> None:
    net = NetClient(clock=world.clock, network=world.net.host("cli"))
    starting = asyncio.create_task(Cluster("hung:9876;hung:9877", net).__aenter__())
    await world.clock.settle()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    with pytest.raises(LinkError, match="the client is closed"):
        await Cluster("plain:9876", net).topics()


async def test_a_deleted_topic_is_told_to_the_others(world: World) -> None:
    told: list[int] = []

    def delete(request: object) -> Reply:
        told.append(1)
        return Reply()

    def answer(_: object) -> Reply:
        return Reply(body=RouteBody.from_model(ROUTE).encode())

    await world.serve("broker", {RequestCode.DELETE_TOPIC_IN_BROKER: lambda _: Reply()}, port=10911)
    await world.serve("good", {RequestCode.GET_ROUTEINFO_BY_TOPIC: answer, RequestCode.DELETE_TOPIC_IN_NAMESRV: delete})

    net = NetClient(clock=world.clock, network=world.net.host("cli"))
    async with Cluster("hung:9876;good:9876", net) as cluster:
        deleting = asyncio.create_task(cluster.delete_topic("T"))
        await world.clock.settle()
        assert (told, deleting.done()) == ([1], False)
        await world.clock.run_for(10_000)
        with pytest.raises(LinkError):  # the other one is named
            await deleting
