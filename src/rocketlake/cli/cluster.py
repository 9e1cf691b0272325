"""What commands ask of a cluster: topics, queues, groups, lag.

Owns        the administrative requests of the command line.
Must not know   how answers are shown.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType

from rocketlake.base.errors import LinkError
from rocketlake.client.calls.answer import ask
from rocketlake.client.calls.route import NameServers
from rocketlake.client.config import ClientConfig
from rocketlake.client.errors import NoRoute
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import check_topic
from rocketlake.model.route import Route
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.client import ConsumerConnection
from rocketlake.protocol.bodies.group import GroupEntry, GroupTable
from rocketlake.protocol.bodies.stats import ConsumeStats, GroupOffsets, TopicOffsets, TopicStats
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.admin_group import ConsumerConnectionsHeader, ConsumeStatsHeader
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader, DeleteTopicHeader, TopicStatsHeader
from rocketlake.protocol.headers.namesrv import DeleteTopicInNamesrvHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Cluster", "TopicPlan"]

_ROUTE_TRIES = 60


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to create: queues per broker, permission bits."""

    name: str
    queues: int
    perm: int


class Cluster:
    """`async with Cluster("127.0.0.1:9876") as cluster:` asks every master. Raises LinkError, RemoteError."""

    def __init__(self, namesrv: str) -> None:
        self.name_servers = ClientConfig(namesrv=namesrv).name_servers
        self._net = NetClient()
        self._servers = NameServers(self._net, self.name_servers)

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self._net.close()

    async def masters(self) -> dict[str, str]:
        """Broker name -> address of its master. LinkError if no broker is registered."""
        found = (await self._servers.cluster()).brokers
        masters = {name: entry.broker_addrs[0] for name, entry in sorted(found.items()) if 0 in entry.broker_addrs}
        if not masters:
            raise LinkError(
                "no broker is registered",
                where="name server " + ";".join(self.name_servers),
                hint="start one: `rocketlake broker -n <name server>`; is its namesrvAddr this name server?",
            )
        return masters

    async def broker_and_cluster_names(self) -> set[str]:
        """Names that are topics, too: each broker and each cluster has one of its own name."""
        found = await self._servers.cluster()
        return {*found.brokers, *found.clusters}

    async def topics(self) -> list[str]:
        """Names of all topics."""
        return await self._servers.topics()

    async def route(self, topic: str) -> Route:
        """Where the topic lives. NoRoute if nobody knows it."""
        route = await self._servers.route(topic)
        if route is None:
            raise NoRoute(topic, self.name_servers, purpose="read")
        return route

    async def create_topic(self, plan: TopicPlan) -> list[str]:
        """Create or change it on every master; returns broker names once the name server knows it there."""
        check_topic(plan.name)
        header = CreateTopicHeader(
            topic=plan.name,
            default_topic="TBW102",
            read_queue_nums=plan.queues,
            write_queue_nums=plan.queues,
            perm=plan.perm,
            topic_filter_type="SINGLE_TAG",
        )
        masters = await self.masters()
        await self._at_each(masters, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        await self._await_route(plan.name, set(masters))
        return list(masters)

    async def _await_route(self, topic: str, brokers: set[str]) -> None:
        # The brokers tell the name servers at once, but not before they answer us.
        for _ in range(_ROUTE_TRIES):
            route = await self._servers.route(topic)
            if route is not None and brokers <= {queue.broker_name for queue in route.queues}:
                return
            await asyncio.sleep(0.05)

    async def delete_topic(self, topic: str) -> list[str]:
        """Delete it from every master and name server."""
        route = await self.route(topic)
        masters = {broker.name: broker.addresses[0] for broker in route.brokers if 0 in broker.addresses}
        await self._at_each(masters, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic=topic))
        for address in self.name_servers:
            command = Command.request(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNamesrvHeader(topic=topic))
            await ask(self._net, address, command)
        return list(masters)

    async def queues(self, topic: str) -> dict[MessageQueue, TopicOffsets]:
        """First and next offset of each queue, time of the last message."""
        route = await self.route(topic)
        masters = {broker.name: broker.addresses[0] for broker in route.brokers if 0 in broker.addresses}
        answers = await self._at_each(masters, RequestCode.GET_TOPIC_STATS_INFO, TopicStatsHeader(topic=topic))
        offsets: dict[MessageQueue, TopicOffsets] = {}
        for answer in answers.values():
            offsets |= TopicStats.decode(answer.body_bytes).offsets
        return dict(sorted(offsets.items()))

    async def groups(self) -> dict[str, GroupEntry]:
        """All consumer groups that brokers know."""
        answers = await self._at_each(await self.masters(), RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, None)
        found: dict[str, GroupEntry] = {}
        for answer in answers.values():
            found |= GroupTable.decode(answer.body_bytes).groups
        return dict(sorted(found.items()))

    async def group_offsets(self, group: str) -> dict[MessageQueue, GroupOffsets]:
        """How far the group is in each queue it ever read."""
        header = ConsumeStatsHeader(consumer_group=group, topic="")
        answers = await self._at_each(await self.masters(), RequestCode.GET_CONSUME_STATS, header)
        offsets: dict[MessageQueue, GroupOffsets] = {}
        for answer in answers.values():
            offsets |= ConsumeStats.decode(answer.body_bytes).offsets
        return dict(sorted(offsets.items()))

    async def members(self, group: str) -> dict[str, str]:
        """Client id -> address of the group's consumers that are connected now."""
        header = ConsumerConnectionsHeader(consumer_group=group)
        offline = (ResponseCode.CONSUMER_NOT_ONLINE,)
        answers = await self._at_each(
            await self.masters(), RequestCode.GET_CONSUMER_CONNECTION_LIST, header, accept=offline
        )
        return {
            client.client_id: client.client_addr
            for answer in answers.values()
            if answer.code == ResponseCode.SUCCESS
            for client in ConsumerConnection.decode(answer.body_bytes).connections
        }

    async def _at_each(
        self, brokers: dict[str, str], code: RequestCode, header: Header | None, *, accept: tuple[int, ...] = ()
    ) -> dict[str, Command]:
        accepted = (ResponseCode.SUCCESS, *accept)
        asking = [ask(self._net, to, Command.request(code, header), accept=accepted) for to in brokers.values()]
        return dict(zip(brokers, await asyncio.gather(*asking), strict=True))
