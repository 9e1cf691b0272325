"""The cluster behind the proxy: routes, the masters of brokers, the settings of topics and groups; and how it is asked.

Owns        what is kept of these and for how long, which address serves a broker name, the second try at a new master.
Must not know   gRPC; whether the broker is in this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.client.calls.answer import ask, is_of_slave
from rocketlake.client.calls.route import NameServers
from rocketlake.client.routes import RouteCache
from rocketlake.model.group import GroupConfig
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.route import Route
from rocketlake.model.topic import TEMPLATE_TOPIC, TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.group import GroupEntry
from rocketlake.protocol.bodies.topic import TopicEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_group import GetGroupConfigHeader
from rocketlake.protocol.headers.admin_topic import GetTopicConfigHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.convert.routes import types_of
from rocketlake.proxy.v2 import messages as v2

__all__ = ["ASK_MS", "Cluster"]

_T = TypeVar("_T")

_log: Final = get_logger(__name__)
_TYPE: Final = "message.type"

_FRESH_SECONDS: Final = 20.0
_KEPT_MAX: Final = 20_000
_ROUTE_PAUSE_SECONDS: Final = 0.2
ASK_MS: Final = 2000


@dataclass(slots=True)
class _Kept(Generic[_T]):
    value: _T
    until: float


class _Cache(Generic[_T]):
    """Answers by name. Callers that ask at the same time share one question; an old answer is used if it fails."""

    def __init__(
        self, ask: Callable[[str], Awaitable[_T]], clock: Clock, spawn: Callable[..., asyncio.Task[Any]]
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._spawn = spawn
        self._kept: dict[str, _Kept[_T]] = {}
        self._asking: dict[str, asyncio.Task[_T | Exception]] = {}

    def known(self, name: str) -> _T | None:
        """The answer, if there is a fresh one."""
        kept = self._kept.get(name)
        return kept.value if kept is not None and kept.until > self._clock.monotonic() else None

    async def get(self, name: str) -> _T:
        """The answer, asked for if there is no fresh one. Raises what asking raises."""
        kept = self._kept.get(name)
        if kept is not None and kept.until > self._clock.monotonic():
            return kept.value
        found = await self._asked(name)
        if not isinstance(found, Exception):
            return found
        if kept is not None and isinstance(found, LinkError):
            return kept.value
        raise found

    async def renew(self, name: str) -> None:
        """Ask now; a failure leaves the old answer."""
        await self._asked(name)

    async def _asked(self, name: str) -> _T | Exception:
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = self._spawn(f"ask {name}", self._ask_now(name))
        return await asyncio.shield(task)  # one asker that gives up must not take the answer from the others

    async def _ask_now(self, name: str) -> _T | Exception:
        try:
            value = await self._ask(name)
        except Exception as error:
            return error
        else:
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            self._kept[name] = _Kept(value, self._clock.monotonic() + _FRESH_SECONDS)
            return value
        finally:
            del self._asking[name]


class Cluster(Service):
    """Of one proxy."""

    def __init__(self, net: NetClient, name_servers: Sequence[str], clock: Clock) -> None:
        super().__init__("proxy-cluster", clock)
        self.net = net
        self._servers = NameServers(net, name_servers)
        self._views = RouteCache()
        self._routes = _Cache(self._ask_route, clock, self.spawn)
        self._topics = _Cache(self._ask_topic, clock, self.spawn)
        self._groups = _Cache(self._ask_group, clock, self.spawn)
        self._route_asked: dict[str, float] = {}
        self._warnings = RareWarnings(_log, interval_seconds=60, clock=clock)
        self.adopt(net)

    async def start(self) -> None:
        """Nothing is asked before a call needs it."""
        await super().start()
        await self.net.start()

    async def stop(self) -> None:
        """Close all links to the cluster."""
        await super().stop()
        await self.net.stop()

    async def look(self) -> None:
        """Ask for a route that every cluster may know: the log says at once if no name server gives any."""
        with suppress(RocketLakeError):
            await self._told(TEMPLATE_TOPIC)

    # -- what is known -------------------------------------------------------------------------------------------------

    async def route(self, topic: str) -> Route:
        """Refused TOPIC_NOT_FOUND if no name server knows the topic; LinkError, RemoteError."""
        return await self._routes.get(topic)

    async def to_publish(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues to send to, broker by broker. Refused."""
        if self._routes.known(topic) is None:
            await self._routes.get(topic)
        queues = self._views.to_publish(topic)
        if not queues:
            raise Refused(v2.Code.FORBIDDEN, f"topic {topic} has no queue that takes messages now")
        return queues

    async def to_read(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues to read. Refused."""
        await self._routes.get(topic)
        queues = self._views.to_read(topic)
        if not queues:
            raise Refused(v2.Code.FORBIDDEN, "no readable queue")
        return queues

    async def topic(self, name: str) -> TopicConfig:
        """The settings of a topic, of one broker that has it. Refused."""
        return self._topics.known(name) or await self._topics.get(name)

    async def types(self, topic: str) -> list[v2.MessageType]:
        """The types of messages that a topic takes. Refused.

        A topic that says nothing takes all, as it does on the remoting port; with Apache it takes NORMAL only.
        """
        return types_of((await self.topic(topic)).attributes.get(_TYPE) or "MIXED")

    def known_queues(self, topic: str, kind: int) -> tuple[MessageQueue, ...] | None:
        """The queues to send to, if all is known that says whether a message of this type may be sent to the topic."""
        settings = self._topics.known(topic)
        if settings is None or self._routes.known(topic) is None:
            return None
        text = settings.attributes.get(_TYPE) or "MIXED"
        if kind not in types_of(text):
            return None
        return self._views.to_publish(topic)

    async def group(self, name: str) -> GroupConfig:
        """The settings of a group; those of a new one if no broker knows it yet. LinkError: none of them answers."""
        return await self._groups.get(name)

    def masters(self) -> set[str]:
        """The addresses of all masters that are known."""
        return {address for _, _, address in self._views.addresses(masters_only=True)}

    async def _told(self, topic: str) -> Route | None:
        """What a name server says. Who runs the proxy hears of a failure: many clients keep the cause to themselves."""
        try:
            return await self._servers.route(topic)
        except RocketLakeError as error:
            why = str(error)
            if isinstance(error, RemoteError) and error.code == ResponseCode.NO_PERMISSION:
                why = f"{error.what}. Cure: give the proxy a super user by innerClientAuthenticationCredentials"
            self._warnings.warn("route", "clients get no new routes: %s", why)
            raise

    async def _ask_route(self, topic: str) -> Route:
        route = await self._told(topic)
        if route is None or not route.brokers:
            hint = f"`rocketlake topic create {topic}`; clients of gRPC make no topics"
            raise Refused(v2.Code.TOPIC_NOT_FOUND, f"there is no topic {topic}", hint=hint)
        self._views.put(topic, route)
        return route

    async def _ask_topic(self, name: str) -> TopicConfig:
        header = GetTopicConfigHeader(topic=name)
        answer = await self._ask_any(name, RequestCode.GET_TOPIC_CONFIG, header)
        return TopicEntry.decode(answer.body_bytes).to_model()

    async def _ask_group(self, name: str) -> GroupConfig:
        header = GetGroupConfigHeader(group=name)
        is_new, silence = False, None
        for address in sorted(self.masters()):
            command = Command.request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
            try:
                answer = await ask(self.net, address, command, ASK_MS)
            except RemoteError:
                is_new = True
            except LinkError as error:
                silence = error
            else:
                return GroupEntry.decode(answer.body_bytes).to_model()
        if silence is not None and not is_new:
            raise silence  # a group that is read in order would seem to be an ordinary one
        return GroupConfig(name)

    async def _ask_any(self, topic: str, code: RequestCode, header: Any) -> Command:
        """The answer of the first master of the topic that gives one."""
        problem: Exception = LinkError(f"no broker of topic {topic} has a master now")
        for broker in (await self.route(topic)).brokers:
            if broker.master is not None:
                try:
                    return await ask(self.net, broker.master, Command.request(code, header), ASK_MS)
                except (LinkError, RemoteError) as error:
                    problem = error
        raise problem

    # -- asking --------------------------------------------------------------------------------------------------------

    def master(self, broker_name: str) -> str:
        """The address of a broker's master. LinkError without one."""
        address = self._views.master(broker_name)
        if address is None:
            raise LinkError(f"broker {broker_name} has no master that is known here")
        return address

    async def ask_master(
        self,
        topic: str,
        broker_name: str,
        make: Callable[[], Command],
        timeout_ms: float,
        accept: Sequence[int] = (ResponseCode.SUCCESS,),
    ) -> Command:
        """The answer to a request that may be repeated: asked again, while the master changes.

        `topic`: one that the broker serves. RemoteError, LinkError.
        """
        deadline = self._clock.monotonic() + timeout_ms / 1000
        if self._views.master(broker_name) is None:
            await self._routes.get(topic)
        while True:
            left_ms = (deadline - self._clock.monotonic()) * 1000
            try:
                address = self.master(broker_name)
                return await ask(self.net, address, make(), max(1, int(left_ms)), accept=accept)
            except (LinkError, RemoteError) as error:
                if isinstance(error, RemoteError) and not is_of_slave(error):
                    raise
                if left_ms < _ROUTE_PAUSE_SECONDS * 1000:
                    raise
            await self.doubt(topic)
            await self._clock.sleep(_ROUTE_PAUSE_SECONDS)

    async def doubt(self, topic: str) -> None:
        """A broker of this topic failed: ask for its route anew, a few times a second at most."""
        now = self._clock.monotonic()
        if now - self._route_asked.get(topic, -1.0) >= _ROUTE_PAUSE_SECONDS:
            if len(self._route_asked) >= _KEPT_MAX:
                self._route_asked.clear()
            self._route_asked[topic] = now
            self._servers.turn()
            await self._routes.renew(topic)
