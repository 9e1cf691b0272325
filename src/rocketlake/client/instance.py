"""Shared by the producers and consumers of one client id: links, routes, heartbeats, timers.

Owns        the network client, the route cache and its refreshes, heartbeats, the timer that saves offsets.
Must not know   how messages are sent or consumed.

Every producer and consumer makes an instance of its own unless the user passes one; a shared instance saves links. Two
consumers of one group never share an instance: their client ids must differ.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace
from typing import TypeVar

from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.errors import LinkError, RocketLakeError, UsageError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.base.settings.arguments import check_kind
from rocketlake.client.alarm import Alarm
from rocketlake.client.calls import group as group_calls
from rocketlake.client.calls.answer import is_of_another_master, is_of_slave
from rocketlake.client.calls.reach import net_client
from rocketlake.client.calls.route import NameServers
from rocketlake.client.config import ClientConfig
from rocketlake.client.errors import NoRoute, NotRunning
from rocketlake.client.hooks import Hooks
from rocketlake.client.masters import Masters
from rocketlake.client.member import ConsumerMember, TransactionCheck
from rocketlake.client.routes import MASTER, RouteCache
from rocketlake.client.served import Served
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import DEFAULT_CONSUMER_GROUP, DEFAULT_PRODUCER_GROUP, INNER_PRODUCER_GROUP, reply_topic
from rocketlake.net.local_address import local_address
from rocketlake.net.network import Network
from rocketlake.protocol.command import Command

log = get_logger(__name__)
ALARM_PAUSE_SECONDS = 0.1
WARNING_SECONDS = 30.0
SEARCH_TIMEOUT_MS = 300
JUST_MOVED_SECONDS = 2.0
NEWS_SECONDS = 0.2
GREETING_SECONDS = 0.5
"""A request waits so long at most for brokers to learn who asks: one that hangs must not hold up all requests."""
T = TypeVar("T")
REFUSED_GROUPS = frozenset((DEFAULT_PRODUCER_GROUP, DEFAULT_CONSUMER_GROUP))
_numbers = itertools.count(1)


class ClientInstance(Service):
    """Shared by all producers and consumers of one client id. To share one, start it and pass it as `instance=`."""

    def __init__(
        self, config: ClientConfig | None = None, *, clock: Clock | None = None, network: Network | None = None
    ) -> None:
        self.config = config or ClientConfig()
        self.clock: Clock = clock or SystemClock()
        super().__init__("rocketmq client", self.clock)
        self.client_id = make_client_id(self.config, self.clock)
        self._consumers: dict[str, ConsumerMember] = {}
        self._producers: dict[str, TransactionCheck | None] = {}
        self.is_closed = False
        """True from the stop on: it does not start again."""
        self.reply_takers: list[Callable[[StoredMessage], bool]] = []
        """Each answer to a request is given to these, until one returns True."""
        served = Served(self._consumers, self._producers, self.reply_takers, self.clock, self.spawn)
        self.net = net_client(self.config, self.clock, served.handlers(), network)
        self.adopt(self.net)
        self.name_servers = NameServers(self.net, self.config.name_servers, self.config.call_timeout_ms)
        self.routes = RouteCache()
        self.masters = Masters(self.routes, self._ask_in_doubt, self.net.give_up, self.clock, self.spawn)
        self.masters.on_move.append(self._master_moved)
        self.routes.on_move = self.masters.moved
        self.routes.on_loss = self._master_lost
        self.routes.awaits = lambda broker_name: broker_name in self.masters.in_doubt
        self._published: dict[str, tuple[str, int]] = {}
        self._first_calls: dict[str, dict[asyncio.Future[None], None]] = {}
        """Calls by topic that wait for its first route, in the order in which they came."""
        self._warnings = RareWarnings(log, interval_seconds=WARNING_SECONDS, clock=self.clock)
        self._route_lock = asyncio.Lock()
        self._version = 0
        """The last one of a subscription."""
        self._route_alarm = Alarm(self.clock)
        self._heartbeat_alarm = Alarm(self.clock)
        self._heartbeat_lock = asyncio.Lock()
        self._greeted: dict[str, object] = {}
        """By address: the link that was open behind the last heartbeat, None if there was none.

        One that the broker refused counts: else each request would begin with another one, refused again.
        """

    async def start(self) -> None:
        """Start the timers; nothing is sent before a producer or consumer registers."""
        if self.is_closed:
            raise UsageError(
                "a client that was stopped cannot be started again",
                where=self.client_id,
                hint="make a new ClientInstance",
            )
        await super().start()
        self.keep("routes", self._refresh_routes)
        self.keep("heartbeats", self._send_heartbeats)
        self.every("offsets", self.config.persist_interval_ms / 1000, self._persist_offsets)

    async def stop(self) -> None:
        """Stop the timers and close all links."""
        self.is_closed = True
        await super().stop()
        await self.net.stop()

    def check_open(self, kind: str, group: str) -> None:
        """NotRunning, for this producer or consumer, if its instance was stopped."""
        if self.is_closed:
            raise NotRunning(kind, group, is_over=True)

    # groups

    def add_producer(self, group: str, check: TransactionCheck | None = None) -> None:
        """Register a producer group, and the function that answers about its transactions.

        UsageError for a second one.
        """
        _check_group(group)
        if group in self._producers:
            raise UsageError(
                f"producer group {group!r} exists twice in one client",
                hint="use one Producer, or give each its own instance",
            )
        self._producers[group] = check

    async def remove_producer(self, group: str) -> None:
        """Tell the brokers that the producer is gone."""
        self._producers.pop(group, None)
        await self._unregister(producer_group=group)

    def add_consumer(self, member: ConsumerMember) -> None:
        """Register a consumer; UsageError when this instance has one of its group already."""
        _check_group(member.group)
        if member.group in self._consumers:
            raise UsageError(
                f"consumer group {member.group!r} exists twice in one client",
                hint="give each its own instance: members of one group need client ids of their own",
            )
        self._consumers[member.group] = member

    async def remove_consumer(self, member: ConsumerMember) -> None:
        """Tell the brokers that the consumer is gone, so that the others take its queues at once."""
        del self._consumers[member.group]
        await self._unregister(consumer_group=member.group)

    async def _unregister(self, *, producer_group: str | None = None, consumer_group: str | None = None) -> None:
        calls = (
            group_calls.unregister(
                self.net,
                address,
                self.client_id,
                producer_group=producer_group,
                consumer_group=consumer_group,
                timeout_ms=self.config.call_timeout_ms,
            )
            for _, _, address in self.routes.addresses(masters_only=False)
        )
        # Never while a heartbeat is under way: a broker serves a large heartbeat in turns and would register the group
        # again.
        async with self._heartbeat_lock:
            await self._try_all("unregister", calls)

    async def members(self, group: str, topic: str) -> list[str]:
        """Client ids of the group, as a broker of the topic knows them."""
        address = self.routes.broker_of_topic(topic)
        if address is None:
            return []
        return await group_calls.members(self.net, address, group, self.config.call_timeout_ms)

    # routes

    def known_queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """The queues that `queues_to_publish` found for the topic, kept up to date; None: call that first."""
        return self.routes.to_publish(topic) if topic in self._published else None

    async def queues_to_publish(
        self, topic: str, *, template: str = "TBW102", new_queues: int = 4, until: float = 0.0
    ) -> tuple[MessageQueue, ...]:
        """Queues to send to. For an unknown topic those of its template, so that a broker can create it.

        A broker that restarts is in no route: one is waited for `until` a time in monotonic seconds. Raises NoRoute.
        """
        queues = self.routes.to_publish(topic)
        if not queues or topic in self._first_calls:
            self._published[topic] = (template, new_queues)
            queues = await self._first_route(topic, until)
        if not queues:
            raise NoRoute(topic, self.name_servers.addresses, is_read_only=self.routes.is_read_only(topic))
        self._published.setdefault(topic, (template, new_queues))
        return queues

    async def _first_route(self, topic: str, until: float) -> tuple[MessageQueue, ...] | None:
        """Behind the calls before this one: ask for the route, again and again until the time is up."""
        line = self._first_calls.setdefault(topic, {})
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line[place] = None
        try:
            if next(iter(line)) is not place:
                await self.clock.wait(place, until - self.clock.monotonic())
            queues = await self._known_or_asked(topic)
            while not queues and not self.routes.is_read_only(topic):
                left = until - self.clock.monotonic()
                if left <= 0:
                    break
                await self.clock.sleep(min(left, NEWS_SECONDS))
                queues = await self._known_or_asked(topic)
            return queues
        finally:
            del line[place]
            if not line:
                del self._first_calls[topic]
            elif not (first := next(iter(line))).done():
                first.set_result(None)

    async def _known_or_asked(self, topic: str) -> tuple[MessageQueue, ...] | None:
        async with self._route_lock:
            if not self.routes.to_publish(topic):
                await self._ask_publish_route(topic)
            return self.routes.to_publish(topic)

    async def _ask_publish_route(self, topic: str, timeout_ms: int | None = None) -> None:
        if await self._ask_route(topic, timeout_ms) or topic not in self._published:
            return
        if self.routes.to_read(topic) is not None:
            # The topic is known and its brokers are down now: no other broker must create it because of that.
            return
        template, new_queues = self._published[topic]
        route = await self.name_servers.route(template, timeout_ms)
        if route is not None and self.routes.put_template(topic, route, new_queues):
            # A broker asks about transactions only after it has seen a heartbeat of this client.
            self.heartbeat_soon()

    async def queues_to_read(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """Queues to read, sorted; None when no name server knows the topic."""
        if self.routes.to_read(topic) is None:
            await self.refresh_route(topic)
        return self.routes.to_read(topic)

    async def refresh_route(self, topic: str) -> bool:
        """Ask the name server now; false when it does not know the topic."""
        async with self._route_lock:
            return await self._ask_route(topic)

    async def _ask_route(self, topic: str, timeout_ms: int | None = None) -> bool:
        route = await self.name_servers.route(topic, timeout_ms)
        if route is None:
            return False
        if self.routes.put(topic, route):
            # New brokers need our heartbeat before a pull; queues that moved need a rebalance.
            self.heartbeat_soon()
            for member in self._consumers.values():
                if topic in member.topics:
                    member.rebalance_soon()
        return True

    def routes_soon(self) -> None:
        """A link broke: ask for all routes now, not at the next interval, for the broker may have moved."""
        self._route_alarm.ring()

    # masters

    async def _ask_in_doubt(self, topic: str, elsewhere: bool) -> None:
        """A name server that is gone with the master costs a third of a second, not the usual time."""
        if elsewhere:
            self.name_servers.turn()
        await self._ask_publish_route(topic, SEARCH_TIMEOUT_MS)

    def _master_lost(self, broker_name: str, topic: str) -> None:
        if self.routes.has_replicas(broker_name):
            self.masters.doubt(broker_name, topic, None)

    def _master_moved(self, _broker_name: str) -> None:
        self.routes_soon()
        self.heartbeat_soon()

    async def invoke_at_master(self, address: str, queue: MessageQueue, command: Command, timeout_ms: float) -> Command:
        """Ask the master of a queue's broker. If no answer comes, or it is a slave by now, a new one is looked for.

        Raises LinkError: also when there is a new master and the old one has not answered for half a second.
        """
        masters, broker_name = self.masters, queue.broker_name
        number = masters.begin(address, broker_name, queue.topic)
        try:
            answer = await self.net.invoke(address, command, timeout_ms)
        except LinkError:
            masters.doubt(broker_name, queue.topic, address)
            raise
        finally:
            masters.end(number)
        if is_of_slave(answer):
            masters.doubt(broker_name, queue.topic, address)
        elif masters.in_doubt:
            masters.heard(broker_name, address, number)
        return answer

    async def at_master(self, broker_name: str, topic: str, ask: Callable[[str], Awaitable[T]]) -> T:
        """The outcome of `ask(address)` at the master. After a LinkError a new one is looked for, for the next try.

        So it is after the refusal of a slave.
        """
        masters = self.masters
        address = await self.master(broker_name, topic)
        number = masters.begin(address, broker_name, topic)
        try:
            outcome = await ask(address)
        except RocketLakeError as error:
            if is_of_another_master(error):
                masters.doubt(broker_name, topic, address)
                await masters.wait(broker_name, address, NEWS_SECONDS)
            raise
        finally:
            masters.end(number)
        masters.heard(broker_name, address, number)
        return outcome

    async def after_break(self, queue: MessageQueue, seconds: float) -> None:
        """A link to the queue's broker broke: pause for so long, less if the broker has a new master before."""
        if self.masters.has_just_moved(queue.broker_name, JUST_MOVED_SECONDS):
            seconds = min(seconds, ALARM_PAUSE_SECONDS)
        await self.masters.wait(queue.broker_name, self.routes.master(queue.broker_name), seconds)

    async def master(self, broker_name: str, topic: str) -> str:
        """Address of the broker's master; asks for the route once when unknown. Raises LinkError."""
        address = self.routes.master(broker_name)
        if address is None and broker_name not in self.masters.in_doubt:
            await self.refresh_route(topic)
            address = self.routes.master(broker_name)
        if address is None:
            raise LinkError(
                f"broker {broker_name!r} has no master",
                where="name server " + ";".join(self.name_servers.addresses),
                hint="start the broker with the address of this name server; its log says where it registers",
            )
        return address

    async def to_read_from(self, queue: MessageQueue, broker_id: int = MASTER) -> tuple[str, bool]:
        """Address of a replica that serves the queue and whether it is the master. Raises LinkError."""
        address = self.routes.to_read_from(queue.broker_name, broker_id)
        if address is None:
            await self.refresh_route(queue.topic)
            address = self.routes.to_read_from(queue.broker_name, broker_id)
        if address is None:
            raise LinkError(
                f"broker {queue.broker_name!r} is not known",
                where="name server " + ";".join(self.name_servers.addresses),
                hint="start the broker with the address of this name server; its log says where it registers",
            )
        return address, address == self.routes.master(queue.broker_name)

    # heartbeats

    def new_version(self) -> int:
        """The version of a subscription that is made now: the time, but above every version before it.

        Brokers filter by the newest version that they know, so a clock that was set back must not make an older one.
        """
        self._version = max(self.clock.now_ms(), self._version + 1)
        return self._version

    def heartbeat_soon(self) -> None:
        """Send a heartbeat to all brokers without waiting for the next interval."""
        self._heartbeat_alarm.ring()

    async def heartbeat(self) -> None:
        """Register all groups with every known broker (masters only when there is no consumer)."""
        if not self._consumers and not self._producers:
            return
        async with self._heartbeat_lock:
            targets = [address for _, _, address in self.routes.addresses(masters_only=not self._consumers)]
            await self._greet(targets)
            self._greeted = {address: self._greeted[address] for address in targets}

    async def _greet(self, addresses: Collection[str]) -> None:
        body = group_calls.heartbeat_body(
            self.client_id,
            [*sorted(self._producers), INNER_PRODUCER_GROUP],
            [member.registration() for member in self._consumers.values()],
        )

        async def greet(address: str) -> None:
            try:
                await group_calls.heartbeat(self.net, address, body, self.config.call_timeout_ms)
            finally:
                self._greeted[address] = self.net.link(address)

        await self._try_all("heartbeat", map(greet, addresses))

    async def expect_replies(self, topic: str, seconds: float) -> None:
        """Before a request: all brokers that may get its answer shall know this client. The route of `topic` is known.

        The answer goes to the topic of answers of the cluster, so to any of its brokers.
        """
        until = self.clock.monotonic() + min(seconds, GREETING_SECONDS)
        for answers in map(reply_topic, self.routes.clusters(topic)):
            if not self.known_queues(answers):
                try:
                    await self.queues_to_publish(answers)
                except RocketLakeError as error:
                    self._warnings.warn("answers", "the brokers of %s are not known: %s", answers, error)
        if greeting := self.become_known():
            await self.clock.wait(greeting, until - self.clock.monotonic())

    def become_known(self, *, also_lost: bool = False) -> asyncio.Task[None] | None:
        """Begin to send a heartbeat to each master that has none by the link that is open now; None if all have one.

        One that could not be reached is greeted again when a link to it is open; `also_lost`: at once.
        """
        return self.spawn("greeting", self._greet_strangers(also_lost)) if self._strangers(also_lost) else None

    async def _greet_strangers(self, also_lost: bool) -> None:
        async with self._heartbeat_lock:
            await self._greet(self._strangers(also_lost))

    def _strangers(self, also_lost: bool) -> list[str]:
        links = {address: self.net.link(address) for _, _, address in self.routes.addresses(masters_only=True)}
        return [
            address
            for address, link in links.items()
            if address not in self._greeted or link is not self._greeted[address] or (also_lost and link is None)
        ]

    async def _try_all(self, what: str, calls: Iterable[Awaitable[object]]) -> None:
        results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, RocketLakeError):
                self._warnings.warn(what, "%s of client %s failed: %s", what, self.client_id, result)
            elif isinstance(result, BaseException):
                raise result

    # timers

    async def _refresh_routes(self) -> None:
        rung = await self._route_alarm.wait(self.config.route_interval_ms / 1000)
        topics = set(self._published)
        for member in self._consumers.values():
            topics.update(member.topics)
        for topic in sorted(topics):
            try:
                async with self._route_lock:
                    await self._ask_publish_route(topic)
            except RocketLakeError as error:
                # One key for all topics: a name server that does not answer would cause one warning for each topic.
                self._warnings.warn("route", "route of topic %s stays as it was: %s", topic, error)
            except Exception:
                log.exception("route of topic %s stays as it was", topic)
        self.routes.drop_unrouted_brokers()
        if rung:
            await self.clock.sleep(ALARM_PAUSE_SECONDS)

    async def _send_heartbeats(self) -> None:
        await self._heartbeat_alarm.wait(self.config.heartbeat_interval_ms / 1000)
        await self.heartbeat()
        # Many rings in a short time make one heartbeat: a broker that restarts refuses every pull, and each refusal
        # rings.
        await self.clock.sleep(ALARM_PAUSE_SECONDS)

    async def _persist_offsets(self) -> None:
        for member in list(self._consumers.values()):
            try:
                await member.persist_offsets()
            except (RocketLakeError, OSError) as error:
                log.warning("offsets of group %s were not saved: %s", member.group, error)
            except Exception:
                log.exception("offsets of group %s were not saved", member.group)


def _check_group(group: str) -> None:
    if group in REFUSED_GROUPS:
        raise UsageError(
            f"the group name {group} is RocketMQ's own placeholder", hint="give the group a name of your own"
        )


def check_settings(
    config: object, kind: type, *, client_config: object = None, instance: object = None, hooks: object = None
) -> None:
    """UsageError unless what a producer or consumer was given is of its kind; None says nothing."""
    given = ((config, kind), (client_config, ClientConfig), (instance, ClientInstance), (hooks, Hooks))
    for name, (value, wanted) in zip(("config", "client_config", "instance", "hooks"), given, strict=True):
        if value is not None:
            check_kind(name, value, wanted, hint=f"write {name}={wanted.__name__}(...)")


def client_settings(config: ClientConfig | None, namesrv: str | None) -> ClientConfig:
    """The client settings with the `namesrv` argument of a producer or consumer on top."""
    config = config or ClientConfig()
    return replace(config, namesrv=namesrv) if namesrv else config


def make_client_id(config: ClientConfig, clock: Clock) -> str:
    """`ip@name`; without a name `ip@pid#number`, unique among the clients of this address."""
    # The time keeps two processes apart that have one pid (containers), the number two clients of one process.
    name = config.instance_name or f"{os.getpid()}#{clock.now_ms()}{next(_numbers)}"
    return f"{config.client_ip or local_address()}@{name}"
