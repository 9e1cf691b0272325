"""What the proxy keeps of its cluster and of its clients, and how much it asks of brokers at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError
from rocketlake.model.group import GroupConfig
from rocketlake.model.route import BrokerInfo, QueueInfo, Route
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import ASKED_AT_ONCE, NetClient
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.memory_net import MemoryNet
from rocketlake.net.request import HELD, Handler, Held, Reply, Request
from rocketlake.net.server import Server
from rocketlake.protocol.bodies.group import GroupEntry
from rocketlake.protocol.bodies.heartbeat import Heartbeat
from rocketlake.protocol.bodies.lite import LiteAction, LiteSubscriptionBody
from rocketlake.protocol.bodies.route import RouteBody
from rocketlake.protocol.bodies.topic import TopicEntry
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.proxy.cluster import Cluster
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.lites import Lites
from rocketlake.proxy.services.acks import Acks
from rocketlake.proxy.services.caller import Caller
from rocketlake.proxy.services.clients import Client, Clients
from rocketlake.proxy.services.received import Received
from rocketlake.proxy.services.renewals import Renewals
from rocketlake.proxy.services.transactions import Transactions
from rocketlake.proxy.v2 import messages as v2


def caller(client_id: str) -> Caller:
    """A client of a proxy that asks nobody who it is."""
    call: Any = None
    return Caller(call, client_id, None, lambda *_: True, 30_000)


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

    def serve(self, code: int, handler: Handler) -> None:
        """Have the broker serve this, too."""
        self.broker.dispatcher.add([Row(code, handler, ANYBODY)])

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


async def test_the_log_says_that_no_name_server_answers_once_a_minute(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.cluster.look()
    assert not caplog.records
    await world.name_server.stop(drain_seconds=0)
    await world.cluster.look()
    with pytest.raises(LinkError):
        await world.cluster.route("another")
    (said,) = [record.getMessage() for record in caplog.records if record.name == "rocketlake.proxy.cluster"]
    assert said.startswith("clients get no new routes: no name server answers: cannot connect to ns:9876")
    assert "Cure: is it running there?" in said


async def test_a_call_about_many_messages_asks_for_some_at_once(world: World) -> None:
    held: list[Request] = []

    def hold(request: Request) -> Held:
        held.append(request)
        return HELD

    world.serve(RequestCode.ACK_MESSAGE, hold)
    received = Received(world.cluster)
    acks = Acks(received, Renewals(received, lambda _: True, world.clock), Limits)
    entries = [v2.AckMessageEntry(receipt_handle=f"0 1 1 0 0 b 0 {number} 1") for number in range(1000)]
    request = v2.AckMessageRequest(group=v2.Resource(name="g"), topic=v2.Resource(name="T"), entries=entries)
    acking = asyncio.ensure_future(acks.acknowledge(caller("c"), request))
    rounds = 0
    while not acking.done():
        await world.clock.settle()
        assert len(held) <= ASKED_AT_ONCE
        rounds += bool(held)
        for each in held:
            each.answer(Reply())
        held.clear()
    answer = acking.result()
    assert [entry.receipt_handle for entry in answer.entries] == [entry.receipt_handle for entry in entries]
    assert answer.status.code == v2.Code.OK
    assert rounds == -(-len(entries) // ASKED_AT_ONCE)


async def test_as_many_lite_clients_as_there_is_room_for_are_known_by_their_last_word(world: World) -> None:
    """Brokers forget a client that is silent; so one that never says that it goes takes no other's room for ever."""
    told: list[tuple[LiteAction, str]] = []

    def change(request: Request) -> Reply:
        told.extend(
            (each.action, each.client_id) for each in LiteSubscriptionBody.decode(request.body).subscription_set
        )
        return Reply()

    world.serve(RequestCode.LITE_SUBSCRIPTION_CTL, change)
    clients: Any = None
    lites = Lites(world.cluster, clients, Limits, world.cluster.spawn, clients_max=2)
    request = v2.SyncLiteSubscriptionRequest(
        action=v2.LiteSubscriptionAction.COMPLETE_ADD, topic=v2.Resource(name="T"), group=v2.Resource(name="g")
    )
    for client in ("silent", "b", "c", "b"):
        assert (await lites.sync(caller(client), request)).status.code == v2.Code.OK
    told.clear()
    for client in ("silent", "b", "c"):
        lites.client_left(client)
    await world.clock.settle()
    assert told == [(LiteAction.COMPLETE_REMOVE, "b"), (LiteAction.COMPLETE_REMOVE, "c")]


async def test_a_topic_whose_settings_cannot_be_read_keeps_no_other_from_heartbeats(world: World) -> None:
    heard: list[Heartbeat] = []

    def settings(request: Request) -> Reply:
        if (request.command.fields or {})["topic"] == "BAD":
            return Reply(body=b"[]")
        return Reply(body=TopicEntry.from_model(TopicConfig("T", attributes={"message.type": "TRANSACTION"})).encode())

    def hear(request: Request) -> Reply:
        heard.append(Heartbeat.decode(request.body))
        return Reply()

    world.serve(RequestCode.GET_TOPIC_CONFIG, settings)
    world.serve(RequestCode.HEART_BEAT, hear)
    callers: Any = None
    clients = Clients(world.cluster, callers, world.clock, lambda: 1)
    clients.known["p"] = Client("p", v2.ClientType.PRODUCER, topics=frozenset(("BAD", "T")))
    async with Transactions(world.cluster, clients, world.clock):
        await world.clock.run_for(25_000)
    assert [[each.group_name for each in beat.producers] for beat in heard] == [["T"]]
