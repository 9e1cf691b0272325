"""What the proxy keeps of its cluster, while brokers answer and while they do not."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError
from rocketlake.model.group import GroupConfig
from rocketlake.model.route import BrokerInfo, QueueInfo, Route
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.memory_net import MemoryNet
from rocketlake.net.request import Handler, Reply
from rocketlake.net.server import Server
from rocketlake.protocol.bodies.group import GroupEntry
from rocketlake.protocol.bodies.route import RouteBody
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.proxy.cluster import Cluster


class World:
    """A name server, a broker that knows the group "ordered", and the cluster as a proxy sees it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._net = MemoryNet(clock=self.clock)
        self.cluster = Cluster(
            NetClient(None, self.clock, {}, network=self._net.host("proxy")), ["ns:9876"], self.clock
        )
        route = Route(queues=[QueueInfo("b", 1, 1)], brokers=[BrokerInfo("c", "b", {0: "b:10911"})])
        group = GroupEntry.from_model(GroupConfig("ordered", consume_message_orderly=True))
        self.name_server = self._server(
            "ns", 9876, RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda _: Reply(body=RouteBody.from_model(route).encode())
        )
        self.broker = self._server(
            "b",
            10911,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
            lambda request: (
                Reply(body=group.encode())
                if (request.command.fields or {})["group"] == "ordered"
                else Reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
            ),
        )

    def _server(self, host: str, port: int, code: int, handler: Handler) -> Server:
        dispatcher = Dispatcher([Row(code, handler, ANYBODY)])
        return Server(dispatcher, host=host, port=port, network=self._net.host(host), clock=self.clock)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    async with world.name_server, world.broker, world.cluster:
        await world.cluster.route("T")
        yield world


async def test_a_group_that_no_broker_knows_is_a_new_one(world: World) -> None:
    assert await world.cluster.group("new") == GroupConfig("new")


async def test_an_ordered_group_stays_one_while_no_broker_answers(world: World) -> None:
    assert (await world.cluster.group("ordered")).consume_message_orderly
    await world.broker.stop(drain_seconds=0)
    await world.clock.run_for(60_000)  # longer than anything is kept as fresh
    assert (await world.cluster.group("ordered")).consume_message_orderly
    with pytest.raises(LinkError):
        await world.cluster.group("another")
