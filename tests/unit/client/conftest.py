"""Shared by the client's unit tests: a hand-moved clock, a service, and scripted peers on a network in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.service import Service
from rocketlake.client.config import ClientConfig
from rocketlake.client.instance import ClientInstance
from rocketlake.model.route import BrokerInfo, QueueInfo, Route
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.memory_net import MemoryNet
from rocketlake.net.request import Asker, Handler, Held, Reply, Request
from rocketlake.net.server import Server
from rocketlake.protocol.bodies.client import GroupMembers
from rocketlake.protocol.bodies.heartbeat import Heartbeat
from rocketlake.protocol.bodies.route import RouteBody
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.namesrv import GetRouteHeader
from rocketlake.protocol.headers.send import SendHeader, SendReplyHeader, read_send_header
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def service(clock: ManualClock) -> AsyncIterator[Service]:
    service = Service("test", clock)
    await service.start()
    yield service
    await service.stop()


class ScriptedBroker:
    """A broker that accepts every send, unless a test gives it other handlers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent: list[tuple[SendHeader, bytes]] = []
        self.heartbeats: list[Heartbeat] = []
        self.left: list[str] = []
        self.members: list[str] = []
        self.asker: Asker | None = None
        self.answer_send: Callable[[Request], Reply | Held] = self.accept
        self.handlers: dict[int, Handler] = {
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send,
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: lambda request: Reply(
                body=GroupMembers(client_ids=self.members).encode()
            ),
        }

    @property
    def address(self) -> str:
        return f"{self.name}:10911"

    def _send(self, request: Request) -> Reply | Held:
        self.sent.append((read_send_header(request.command), request.body))
        return self.answer_send(request)

    def accept(self, request: Request) -> Reply:
        header = read_send_header(request.command)
        return Reply(header=SendReplyHeader(msg_id="ID", queue_id=header.queue_id, queue_offset=len(self.sent) - 1))

    def refuse(self, code: ResponseCode, remark: str = "scripted") -> None:
        self.answer_send = lambda request: Reply(code, remark=remark)

    def _heartbeat(self, request: Request) -> Reply:
        self.heartbeats.append(Heartbeat.decode(request.body))
        self.asker = request.asker
        return Reply()

    async def ask_client(self, code: RequestCode, header: Header, body: bytes = b"") -> Command:
        """A request from the broker to the client whose heartbeat came last."""
        assert self.asker is not None
        return await self.asker.invoke(Command.request(code, header, body), 5000)

    def _unregister(self, request: Request) -> Reply:
        self.left.append((request.command.fields or {})["clientID"])
        return Reply()


class Peers:
    """Name servers and brokers of one scripted cluster."""

    def __init__(self) -> None:
        self.net = MemoryNet()
        self.routes: dict[str, Route] = {}
        self.route_questions: list[tuple[str, str]] = []
        self.answer_route: Callable[[Request], Reply | Held] = self._find_route
        self.servers: dict[str, Server] = {}
        self.instances: list[ClientInstance] = []

    async def name_server(self, host: str) -> None:
        def route(request: Request) -> Reply | Held:
            self.route_questions.append((host, request.header(GetRouteHeader).topic))
            return self.answer_route(request)

        await self._serve(host, 9876, {RequestCode.GET_ROUTEINFO_BY_TOPIC: route})

    def _find_route(self, request: Request) -> Reply:
        topic = request.header(GetRouteHeader).topic
        found = self.routes.get(topic)
        if found is None:
            return Reply(ResponseCode.TOPIC_NOT_EXIST, remark=f"No topic route info: {topic}")
        return Reply(body=RouteBody.from_model(found).encode())

    async def broker(self, broker: ScriptedBroker) -> None:
        await self._serve(broker.name, 10911, broker.handlers)

    async def _serve(self, host: str, port: int, handlers: dict[int, Handler]) -> None:
        rows = [Row(code, handler, ANYBODY) for code, handler in handlers.items()]
        server = Server(Dispatcher(rows), host=host, port=port, network=self.net.host(host))
        await server.start()
        self.servers[host] = server

    async def kill(self, host: str) -> None:
        await self.servers.pop(host).stop(drain_seconds=0)

    def route(self, topic: str, *brokers: ScriptedBroker, queues: int = 2) -> None:
        self.routes[topic] = Route(
            queues=[QueueInfo(broker.name, queues, queues) for broker in brokers],
            brokers=[BrokerInfo("c", broker.name, {0: broker.address}) for broker in brokers],
        )

    def group(self, topic: str, name: str, *members: ScriptedBroker | None, queues: int = 2) -> None:
        """The route of a topic on one broker name; `members` by broker id, None where there is none."""
        addresses = {number: member.address for number, member in enumerate(members) if member is not None}
        self.routes[topic] = Route(queues=[QueueInfo(name, queues, queues)], brokers=[BrokerInfo("c", name, addresses)])

    def client(self, namesrv: str = "ns:9876", **settings: int) -> ClientInstance:
        config = ClientConfig(namesrv=namesrv, client_ip="10.0.0.1", **settings)
        instance = ClientInstance(config, network=self.net.host("client"))
        self.instances.append(instance)
        return instance


@pytest.fixture
async def peers() -> AsyncIterator[Peers]:
    peers = Peers()
    await peers.name_server("ns")
    yield peers
    for instance in peers.instances:
        await instance.stop()
    for host in list(peers.servers):
        await peers.kill(host)


@pytest.fixture
def make_broker(peers: Peers) -> Callable[..., Awaitable[ScriptedBroker]]:
    async def make(name: str, handlers: dict[int, Handler] | None = None) -> ScriptedBroker:
        broker = ScriptedBroker(name)
        broker.handlers |= handlers or {}
        await peers.broker(broker)
        return broker

    return make
