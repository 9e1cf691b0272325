"""The requests that administrators send to a cluster about brokers, topics and queues.

Owns        finding the servers of a cluster, the administrative requests about topics.
Must not know   how answers are shown; groups (groups.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from rocketlake.base.errors import LinkError, NotThereError, RemoteError
from rocketlake.client.calls.answer import ask
from rocketlake.client.calls.reach import net_client
from rocketlake.client.calls.route import NameServers
from rocketlake.client.config import ClientConfig
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import check_topic
from rocketlake.model.route import BrokerInfo, Route
from rocketlake.model.topic import TEMPLATE_TOPIC, TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.stats import TopicOffsets, TopicStats
from rocketlake.protocol.bodies.topic import TopicEntry, TopicTable
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.admin_topic import (
    AllTopicsHeader,
    CreateTopicHeader,
    DeleteTopicHeader,
    GetTopicConfigHeader,
    TopicStatsHeader,
)
from rocketlake.protocol.headers.namesrv import DeleteTopicInNamesrvHeader, GetRouteHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Cluster", "TopicPlan", "first_to_answer"]

_ROUTE_TRIES = 60


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic to create: queues per broker, permission bits, attributes as `+a=1,+b=2`."""

    name: str
    queues: int
    perm: int
    attributes: str = ""


async def first_to_answer(net: NetClient, addresses: Sequence[str], command: Callable[[], Command]) -> str | None:
    """Ask all at once; the first that answers and serves such requests. One that hangs costs no time then.

    `command` makes the request, which must change nothing. A single address is not asked.
    """
    if len(addresses) == 1:
        return addresses[0]

    async def serves(address: str) -> bool:
        try:
            await ask(net, address, command())
        except LinkError:
            return False
        except RemoteError as error:
            return error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        return True

    async with asyncio.TaskGroup() as asking:
        waiting = {asking.create_task(serves(address)): address for address in addresses}
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            answered = [address for task in done if (address := waiting.pop(task)) and task.result()]
            if answered:
                for task in waiting:
                    task.cancel()
                return answered[0]
    return None


class Cluster:
    """`async with Cluster("127.0.0.1:9876") as cluster:` asks every master. Raises LinkError, RemoteError."""

    def __init__(self, namesrv: str, net: NetClient | None = None) -> None:
        """It closes `net`, too."""
        self.name_servers = ClientConfig(namesrv=namesrv).name_servers
        self.net = net or net_client()
        self._servers = NameServers(self.net, self.name_servers)

    async def __aenter__(self) -> Cluster:
        header = GetRouteHeader(topic=TEMPLATE_TOPIC)
        try:
            first = await first_to_answer(
                self.net, self.name_servers, lambda: Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
            )
        except BaseException:  # Ctrl-C, a deadline: nobody else has the links yet
            await self.net.close()
            raise
        if first is not None:
            self._servers.prefer(first)
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.net.close()

    @property
    def where(self) -> str:
        """The name servers, for errors."""
        return "name server " + ";".join(self.name_servers)

    async def masters(self) -> dict[str, str]:
        """Broker name -> address of its master. LinkError if no broker is registered."""
        found = (await self._servers.cluster()).brokers
        masters = {name: entry.broker_addrs[0] for name, entry in sorted(found.items()) if 0 in entry.broker_addrs}
        if not masters:
            raise LinkError(
                "no broker is registered",
                where=self.where,
                hint="start one: `rocketlake run broker -n <name server>`; wait for one that runs and has this name "
                "server (namesrvAddr): it registers each 30 s",
            )
        return masters

    async def members(self, broker_name: str) -> dict[int, str]:
        """Broker id -> address, of the brokers with this name; {} if no name server knows it."""
        found = (await self._servers.cluster()).brokers.get(broker_name)
        return dict(found.broker_addrs) if found is not None else {}

    async def brokers(self) -> list[BrokerInfo]:
        """All brokers, masters and slaves, by broker name."""
        return [entry.to_model() for _, entry in sorted((await self._servers.cluster()).brokers.items())]

    async def broker_and_cluster_names(self) -> set[str]:
        """Names that are topics, too: each broker and each cluster has one of its own name."""
        found = await self._servers.cluster()
        return {*found.brokers, *found.clusters}

    async def topics(self) -> list[str]:
        """Names of all topics."""
        return await self._servers.topics()

    async def find_route(self, topic: str) -> Route | None:
        """The topic's route; None if no name server knows the topic."""
        return await self._servers.route(topic)

    async def route(self, topic: str) -> Route:
        """The topic's route. RocketLakeError if no name server knows the topic, LinkError if it knows no broker."""
        route = await self.find_route(topic)
        if route is None:
            await self.masters()  # a name server that has just started knows no topic, and no broker either
            hint = f"`rocketlake topic list` shows all topics; `rocketlake topic create {topic}` makes this one"
            raise NotThereError(f"there is no topic {topic!r}", where=self.where, hint=hint)
        return route

    async def topic_masters(self, topic: str) -> dict[str, str]:
        """Broker name -> address, of the masters that the topic's route names."""
        route = await self.route(topic)
        return {broker.name: broker.addresses[0] for broker in route.brokers if 0 in broker.addresses}

    async def settings(self, topic: str, brokers: Collection[str] = ()) -> dict[str, TopicConfig]:
        """The topic's settings on each master that has it, or on these brokers only, by broker name."""
        masters = await self.masters()
        answers = await self.at_each(
            {name: address for name, address in masters.items() if not brokers or name in brokers},
            RequestCode.GET_TOPIC_CONFIG,
            GetTopicConfigHeader(topic=topic),
            accept=(ResponseCode.TOPIC_NOT_EXIST,),
        )
        return {
            name: TopicEntry.decode(answer.body_bytes).to_model()
            for name, answer in answers.items()
            if answer.code == ResponseCode.SUCCESS
        }

    async def all_settings(self) -> dict[str, dict[str, TopicConfig]]:
        """Topic -> its settings on each master that has it, by broker name. LinkError if one does not answer."""
        answers = await self.at_each(await self.masters(), RequestCode.GET_ALL_TOPIC_CONFIG, AllTopicsHeader())
        found: dict[str, dict[str, TopicConfig]] = {}
        for broker, answer in answers.items():
            for topic, config in TopicTable.decode(answer.body_bytes).configs().items():
                found.setdefault(topic, {})[broker] = config
        return found

    async def create_topic(self, plan: TopicPlan, brokers: Collection[str] | None = None) -> list[str]:
        """Create the topic on all masters or on these; returns their names once the name server knows it."""
        check_topic(plan.name)
        config = TopicConfig(plan.name, read_queues=plan.queues, write_queues=plan.queues, perm=plan.perm)
        return await self.put_topic(
            {name: config for name in await self.masters() if brokers is None or name in brokers}, plan.attributes
        )

    async def put_topic(self, settings: Mapping[str, TopicConfig], attributes: str = "") -> list[str]:
        """Give a topic these settings, by broker; `attributes`: changes, such as `+a=1,-b`. What is not named stays."""
        return await self._put({name: _to_header(config, attributes) for name, config in settings.items()})

    async def make_topic(self, settings: Mapping[str, TopicConfig]) -> list[str]:
        """Make a topic as it is, or was, elsewhere, by broker: with the attributes, too."""
        return await self._put(
            {
                broker: _to_header(config, ",".join(f"+{name}={value}" for name, value in config.attributes.items()))
                for broker, config in settings.items()
            }
        )

    async def _put(self, headers: Mapping[str, CreateTopicHeader]) -> list[str]:
        masters = await self.masters()
        await asyncio.gather(
            *(
                ask(self.net, masters[name], Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header))
                for name, header in headers.items()
            )
        )
        for topic in {header.topic for header in headers.values()}:
            await self._await_route(topic, set(headers))
        return list(headers)

    async def _await_route(self, topic: str, brokers: set[str]) -> None:
        # Brokers tell the name servers at once, but they answer us first.
        for _ in range(_ROUTE_TRIES):
            route = await self._servers.route(topic)
            if route is not None and brokers <= {queue.broker_name for queue in route.queues}:
                return
            await asyncio.sleep(0.05)

    async def delete_topic(self, topic: str) -> list[str]:
        """Delete the topic from every master and name server."""
        masters = await self.topic_masters(topic)
        await self.at_each(masters, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic=topic))
        header = DeleteTopicInNamesrvHeader(topic=topic)
        telling = [
            ask(self.net, address, Command.request(RequestCode.DELETE_TOPIC_IN_NAMESRV, header))
            for address in self.name_servers
        ]
        for told in await asyncio.gather(*telling, return_exceptions=True):  # one that hangs keeps it from no other
            if isinstance(told, BaseException):
                raise told
        return list(masters)

    async def queues(self, topic: str) -> dict[MessageQueue, TopicOffsets]:
        """First and next offset of each queue, time of the last message."""
        masters = await self.topic_masters(topic)
        answers = await self.at_each(masters, RequestCode.GET_TOPIC_STATS_INFO, TopicStatsHeader(topic=topic))
        offsets: dict[MessageQueue, TopicOffsets] = {}
        for answer in answers.values():
            offsets |= TopicStats.decode(answer.body_bytes).offsets
        return dict(sorted(offsets.items()))

    async def at_each(
        self, brokers: Mapping[str, str], code: RequestCode, header: Header | None, *, accept: tuple[int, ...] = ()
    ) -> dict[str, Command]:
        """Send one request to each of these brokers (name -> address); returns the answers by name."""
        accepted = (ResponseCode.SUCCESS, *accept)
        asking = [ask(self.net, to, Command.request(code, header), accept=accepted) for to in brokers.values()]
        return dict(zip(brokers, await asyncio.gather(*asking), strict=True))


def _to_header(config: TopicConfig, attributes: str) -> CreateTopicHeader:
    return CreateTopicHeader(
        topic=config.name,
        default_topic="TBW102",
        read_queue_nums=config.read_queues,
        write_queue_nums=config.write_queues,
        perm=config.perm,
        topic_filter_type=config.filter_type.value,
        topic_sys_flag=config.sys_flag,
        order=config.order,
        attributes=attributes or None,
    )
