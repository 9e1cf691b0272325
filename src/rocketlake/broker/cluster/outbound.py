"""Requests of the broker to name servers.

Owns        the commands, the meaning of each answer.
Must not know   when the commands are sent (registration.py), the broker's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rocketlake.base.errors import RemoteError
from rocketlake.model.route import QueueInfo, Route
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.register import register_crc
from rocketlake.protocol.bodies.route import BrokerMemberGroup, RouteBody
from rocketlake.protocol.bodies.stats import KVTable
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.namesrv import (
    BrokerMemberGroupHeader,
    GetRouteHeader,
    RegisterBrokerHeader,
    RegisterBrokerReplyHeader,
    RegisterTopicHeader,
    UnregisterBrokerHeader,
)
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Identity", "Outbound", "Registered"]

_UNREGISTER_MS = 3000
_ROUTE_MS = 3000


class Identity:
    """The names of a broker, its id, and the address that clients use ("ip:port")."""

    __slots__ = ("address", "broker_id", "broker_name", "cluster_name", "ha_address")

    def __init__(self, cluster_name: str, broker_name: str, broker_id: int, address: str, ha_address: str) -> None:
        self.cluster_name = cluster_name
        self.broker_name = broker_name
        self.broker_id = broker_id
        self.address = address
        self.ha_address = ha_address


@dataclass(frozen=True, slots=True)
class Registered:
    """What a name server tells a broker that registers."""

    orders: Mapping[str, str]
    """The order settings by topic name, which mark ordered topics."""
    master_address: str = ""
    """Told to slaves: the master of their broker name, "" if none is registered."""
    ha_address: str = ""
    """Where that master hands out its log."""


class Outbound:
    """Calls to name servers. LinkError when no answer comes, RemoteError when the name server refuses."""

    def __init__(self, net: NetClient, identity: Callable[[], Identity]) -> None:
        self._net = net
        self._identity = identity

    async def register(self, namesrv: str, data: bytes, timeout_ms: int) -> Registered:
        """REGISTER_BROKER; `data`: a RegisterBrokerBody."""
        identity = self._identity()
        header = RegisterBrokerHeader(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster_name,
            ha_server_addr=identity.ha_address,
            broker_id=identity.broker_id,
            enable_acting_master=False,
            compressed=False,
            body_crc32=register_crc(data),
        )
        answer = await self._net.invoke(namesrv, Command.request(RequestCode.REGISTER_BROKER, header, data), timeout_ms)
        orders = _orders(answer, namesrv)
        told = answer.header(RegisterBrokerReplyHeader)
        return Registered(orders, told.master_addr or "", told.ha_server_addr or "")

    async def register_topic(self, namesrv: str, topic: TopicConfig, timeout_ms: int) -> dict[str, str]:
        """REGISTER_TOPIC_IN_NAMESRV: the queues of one topic; all other topics stay registered. Our name server answers
        as it answers a registration, Apache's name server sends an empty answer."""
        queues = QueueInfo(
            self._identity().broker_name, topic.read_queues, topic.write_queues, topic.perm, topic.sys_flag
        )
        body = RouteBody.from_model(Route(queues=[queues], brokers=[])).encode()
        command = Command.request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicHeader(topic=topic.name), body)
        return _orders(await self._net.invoke(namesrv, command, timeout_ms), namesrv)

    async def unregister(self, namesrv: str) -> None:
        """UNREGISTER_BROKER."""
        identity = self._identity()
        header = UnregisterBrokerHeader(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster_name,
            broker_id=identity.broker_id,
        )
        command = Command.request(RequestCode.UNREGISTER_BROKER, header)
        _check(await self._net.invoke(namesrv, command, _UNREGISTER_MS), namesrv)

    async def route(self, namesrv: str, topic: str) -> Route | None:
        """GET_ROUTEINFO_BY_TOPIC; None if the name server does not know the topic."""
        command = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic=topic))
        answer = await self._net.invoke(namesrv, command, _ROUTE_MS)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        _check(answer, namesrv)
        return RouteBody.decode(answer.body_bytes).to_model()

    async def other_members(self, namesrv: str) -> list[str]:
        """GET_BROKER_MEMBER_GROUP: the addresses of the brokers of this name, but for this one."""
        identity = self._identity()
        header = BrokerMemberGroupHeader(cluster_name=identity.cluster_name, broker_name=identity.broker_name)
        answer = await self._net.invoke(
            namesrv, Command.request(RequestCode.GET_BROKER_MEMBER_GROUP, header), _ROUTE_MS
        )
        _check(answer, namesrv)
        addresses = BrokerMemberGroup.decode(answer.body_bytes).group.broker_addrs.values()
        return [address for address in addresses if address != identity.address]


def _orders(answer: Command, namesrv: str) -> dict[str, str]:
    _check(answer, namesrv)
    return KVTable.decode(answer.body_bytes).table if answer.body else {}


def _check(answer: Command, namesrv: str) -> None:
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteError(
            answer.remark or f"name server answered {answer.code}",
            code=answer.code,
            remark=answer.remark or "",
            address=namesrv,
        )
