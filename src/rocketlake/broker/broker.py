"""The broker as a whole: its wings on common ground, started and stopped in order, and its listeners.

Owns        which wings there are, the order of start and stop, the listeners.
Must not know   what any wing does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.health import Health
from rocketlake.base.logs import get_logger, set_level
from rocketlake.base.service import Service, stop_each
from rocketlake.base.worker import ThreadWorker, Worker
from rocketlake.broker.cluster.role import MASTER_ID
from rocketlake.broker.config import BrokerConfig
from rocketlake.broker.dispatch_table import dispatcher_rows
from rocketlake.broker.flow_control import FlowControl
from rocketlake.broker.metrics.collection import BrokerFamilies
from rocketlake.broker.offsets.beyond_end import lower_to_ends
from rocketlake.broker.wings import plain_runs
from rocketlake.broker.wings.administration import Administration
from rocketlake.broker.wings.clients import Clients
from rocketlake.broker.wings.cluster import Cluster
from rocketlake.broker.wings.copies import Copies, Editions
from rocketlake.broker.wings.delay import Delay
from rocketlake.broker.wings.ground import Ground, Seams
from rocketlake.broker.wings.lite import LightTable, Lite
from rocketlake.broker.wings.membership import Membership
from rocketlake.broker.wings.popping import Popping
from rocketlake.broker.wings.reading import Reading
from rocketlake.broker.wings.replicas import Replicas
from rocketlake.broker.wings.sending import Sending
from rocketlake.broker.wings.takeover import TakeoverWing
from rocketlake.broker.wings.transactions import Transactions
from rocketlake.broker.wings.wing import MasterWing, SlaveWing, Wing
from rocketlake.net.account_requests import AccountRequests
from rocketlake.net.account_watch import AccountWatch
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.gate.audit import Audit
from rocketlake.net.http.exposition import Family, Pace
from rocketlake.net.http.monitor import Monitor
from rocketlake.net.limits import NetLimits
from rocketlake.net.local_address import local_address
from rocketlake.net.network import Network, TcpNetwork
from rocketlake.net.request import Handler
from rocketlake.net.server import Server
from rocketlake.net.server_link import ServerLink
from rocketlake.net.tls.certificates import Certificates
from rocketlake.net.tls.network import SecureNetwork
from rocketlake.net.unfinished import UnfinishedBytes
from rocketlake.store.config import StoreConfig

__all__ = ["Broker"]

_log = get_logger(__name__)

_EVERY_ADDRESS = ("", "0.0.0.0", "::")


class Broker(Service):
    """One broker. Start once, stop once."""

    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
        limits: NetLimits | None = None,
        workers: Callable[[str], Worker] = ThreadWorker,
    ) -> None:
        """Tests give a network and files in memory, a clock moved by hand, and workers without threads."""
        super().__init__(f"broker {config.broker_name}", clock)
        set_level(config.log_level)
        self.health = Health(self._clock)
        self._certificates = Certificates(config.tls, self._clock)
        plain: Network = network or TcpNetwork()
        secure = SecureNetwork(plain, self._certificates)
        self._seams = Seams(
            files=files or PosixFiles(),
            clock=self._clock,
            network=secure,
            ha_network=secure if config.ha_use_tls else plain,
            workers=workers,
            limits=limits or NetLimits(connections_of_host=config.connections_of_host_max),
        )
        self.ground = ground = Ground(
            config, store_config, self._seams, host=_host(config), port=lambda: self._servers[0].port
        )
        self.config, self.store, self.stats = ground.config, ground.store, ground.stats
        self.topics, self.groups, self.offsets = ground.topics, ground.groups, ground.offsets
        self._build_wings(ground)
        self._dispatcher = self._make_dispatcher(config)
        self._servers = self._make_servers(config)
        self.monitor = self._make_monitor(config)
        self.store.on_arrival = self._message_arrived
        self.store.is_awaited = self._is_awaited
        self._parts: tuple[Service, ...] = (
            self._certificates,
            self.stats,
            *self._account_watch(),
            *self._inner_wings,
            self.cluster.net,
            self.replicas,
            *self._servers,
            ground.cold_requests,
            ground.late_log,
            self.reading,
            self.editions,
            self.copies,
            self.cluster,
            *self._of_group,
        )
        """They start in this order, after the store and the tables, and stop in reverse."""
        self.adopt(self.store, ground.saver, *self._parts, self.monitor)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _build_wings(self, ground: Ground) -> None:
        self.cluster = Cluster(ground)
        self.clients = Clients(ground, self.cluster)
        self.reading = Reading(ground, self.clients.consumers, self.cluster.master)
        self.delay = Delay(ground)
        self.transactions = Transactions(ground, self.clients)
        self.light_table = LightTable(ground)
        self.lite = Lite(ground, self.light_table, self.clients.client_ids)
        self.sending = Sending(ground, self.clients, self.transactions, self.lite)
        self.popping = Popping(ground, self.delay, self.lite)
        self.membership = Membership(ground, self.cluster, self) if ground.config.now.controller_mode else None
        stream = self.membership.stream if self.membership is not None else None
        self.replicas = Replicas(ground, self.cluster.master, self.sending, stream)
        if self.membership is not None:
            self.membership.replicas = self.replicas
        self.administration = Administration(
            ground,
            cluster=self.cluster,
            clients=self.clients,
            reading=self.reading,
            sending=self.sending,
            delay=self.delay,
            popping=self.popping,
        )
        sequences = self.sending.sequences
        self.editions = Editions(
            ground, self.cluster, self.clients, replicas=self.replicas, delay=self.delay, sequences=sequences
        )
        mark = self.membership.mark if self.membership is not None else str
        self.copies = Copies(ground, self.cluster, self.clients, self.delay, sequences, mark)
        self._takeover: tuple[TakeoverWing, ...] = ()
        if self.membership is None:
            self._takeover = (TakeoverWing(ground, self.cluster, self.copies, self.replicas, self),)
        self._inner_wings = (
            self.clients,
            self.delay,
            self.transactions,
            self.light_table,
            self.lite,
            self.sending,
            self.popping,
            self.administration,
        )
        """They start before the listeners and stop after them."""
        self._master_wings: tuple[MasterWing, ...] = (
            self.delay,
            self.transactions,
            self.lite,
            self.sending,
            self.popping,
        )
        self._slave_wings: tuple[SlaveWing, ...] = (self.copies,)
        self._of_group = (self.membership,) if self.membership is not None else self._takeover
        self._role_change = asyncio.Lock()
        self._serves_role = False
        """True while the wings of the role run: from the end of the start until the stop."""
        self.wings: tuple[Wing, ...] = (
            *self._inner_wings,
            self.replicas,
            self.reading,
            self.editions,
            self.copies,
            self.cluster,
            *self._of_group,
        )
        self._arrivals = {topic: call for wing in self.wings for topic, call in wing.arrivals.items()}
        self._listeners = [listener for wing in self.wings for listener in wing.listeners]
        for wing in self.wings:
            ground.saver.add(*wing.tables)

    def _account_watch(self) -> list[Service]:
        accounts = self.ground.accounts.file
        return [] if accounts is None else [AccountWatch(accounts, self._clock)]

    def _make_dispatcher(self, config: BrokerConfig) -> Dispatcher:
        """The requests of all wings, and the checks before them."""
        ground = self.ground
        rows = [row for wing in self.wings for row in wing.rows]
        bytes_max, accounts = config.request_body_bytes_max, ground.accounts.file
        served = [*dispatcher_rows(rows, bytes_max, ground.turns, self._clock, ground.cold_requests)]
        audit = None
        if accounts is not None:
            served += AccountRequests(accounts).rows()
            also = None if self.sending.audit is None else self.sending.audit.note
            audit = Audit(ground.accounts.audit_path, self._seams.files, self._clock, self.health, also)
        dispatcher = Dispatcher(served, ground.gate, audit)
        ground.late_log.serve = partial(dispatcher.serve_behind, ground.late_log.check)
        ground.cold_requests.serving_now = dispatcher.serving_now
        flow_control = FlowControl(
            ground.config,
            dispatcher.lanes,
            lambda: ground.intake.waiting,
            lambda: ground.intake.slow_append,
            self._clock,
            quotas=ground.quotas,
        )
        self._passes = [flow_control.check, ground.late_log.check]
        """The hooks whose checks the runs do themselves. Any other hook must see each request, so it ends all runs."""
        dispatcher.before += self._passes
        if not plain_runs.are_there():
            _log.info("the kernels of broker/ are not compiled: requests are served one by one, which takes more CPU")
        return dispatcher

    def _make_servers(self, config: BrokerConfig) -> list[Server]:
        """The listeners, all with the same table."""
        seams = self._seams
        unfinished = UnfinishedBytes(config.unfinished_bytes_max)
        servers = [
            Server(
                self._dispatcher,
                host=config.listen_host,
                port=port,
                limits=seams.limits,
                clock=self._clock,
                network=seams.network,
                turns=self.ground.turns,
                unfinished=unfinished,
            )
            for port in (config.listen_port, config.fast_port)
            if port is not None
        ]
        for server in servers:
            for wing in self.wings:
                server.on_link_lost += wing.on_link_lost
        return servers

    def _make_monitor(self, config: BrokerConfig) -> Monitor:
        ground = self.ground
        families = BrokerFamilies(
            ground,
            clients=self.clients,
            reading=self.reading,
            delay=self.delay,
            replicas=self.replicas,
            transactions=self.transactions,
            popping=self.popping,
            dispatcher=self._dispatcher,
        )

        async def collect(pace: Pace) -> AsyncGenerator[Family, None]:
            if self._serves_role:
                async for family in families.collect(pace):
                    yield family

        return Monitor(
            config.metrics,
            {"cluster": config.cluster_name, "node_type": "broker", "node_id": config.broker_name},
            collect,
            self._not_ready,
            clock=self._clock,
            network=self._seams.network,
        )

    def _not_ready(self) -> list[str]:
        """Why clients should not come to this broker now."""
        if not self._serves_role:
            return ["the broker starts or stops"]
        role, reasons = self.ground.role, [self.cluster.registration.obstacle]
        if role.is_master:
            reasons += [role.pause, self.store.not_writable_reason]
        elif not role.is_known:
            reasons.append("the controller has not told a role yet")
        return [reason for reason in reasons if reason]

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load, recover, listen, register. A RocketLakeError says what is in the way; nothing is open then."""
        await super().start()
        try:
            async with self._role_change:
                await self._start_parts()
                self._serves_role = True
        except BaseException:
            await self.stop()
            raise
        self._say_where()

    async def _start_parts(self) -> None:
        self.store.lock()  # first: the folder of a broker that runs stays as it is
        await self.monitor.start()
        if self.membership is not None:
            await self.membership.look_at_boot()  # before the store takes away the mark of an unclean stop
        self.ground.accounts.load()
        await self.store.start()
        for table in self.ground.saver.tables:
            table.load()
        self.store.when_complete(lambda: lower_to_ends(self.offsets, self.store.next_offset))
        await self.ground.saver.start()
        for takeover in self._takeover:
            takeover.take_role()
        self._serve_role()
        for part in self._parts:
            if isinstance(part, MasterWing) and not self.ground.role.is_master:
                part.follow()
            elif not (isinstance(part, SlaveWing) and self.ground.role.is_master):
                await part.start()

    async def stop(self) -> None:
        """Turn clients away, answer held requests, then close the files. Acknowledged messages stay.

        A part that cannot be stopped is logged, and all parts behind it are stopped, the store above all. The master of
        a group first hands over to a replica, so that producers hardly notice.
        """
        if self.membership is not None and self._serves_role:
            await self.membership.member.hand_over()
        self._serves_role = False
        parts = [part.stop for part in reversed(self._parts)]
        # After the store: the copy of a delayed message, or the end of a half message, counts once it is on disk.
        is_master = self.ground.role.is_master
        wings = [wing.store_stopped for wing in self.wings if is_master or not isinstance(wing, MasterWing)]
        await stop_each(self._end_role_change, *parts, self.store.stop, *wings, self.ground.saver.stop)
        await self.monitor.stop()
        await super().stop()

    async def _end_role_change(self) -> None:
        """Wait until no change of role starts or stops wings."""
        async with self._role_change:
            pass

    # -- a change of role ----------------------------------------------------------------------------------------------

    async def become_slave(
        self, broker_id: int, copied: Callable[[], Awaitable[None]] | None = None, *, waits: bool = True
    ) -> None:
        """Stop the master's wings. The store, the listeners, the links of clients and reads go on.

        First the requests of the master's wings are refused, in runs too; then these wings stop. A message that was
        stored before is acknowledged as usual. `broker_id`: above 0. A broker that does not run only takes the role.
        `copied` waits until slaves have the log, to which nothing is appended any more; it may raise: the role stays.
        `waits`: until the name servers know.
        """
        async with self._role_change:
            before, self.ground.role.broker_id = self.ground.role.broker_id, broker_id
            if not self._serves_role:
                return
            self._serve_role()
            if copied is not None:
                await self._stand_still(copied, before)
            self.reading.hold.wake_all()  # consumers that wait here look for the new master
            await self._follow()
        await self._tell_name_servers(waits)

    async def become_master(self, ready: Callable[[], Awaitable[None]] | None = None, *, waits: bool = True) -> None:
        """Start the master's wings on the present contents of the store and the tables, then serve their requests.

        A broker that does not run only takes the role. `ready` makes the log ready, when nothing is appended to it from
        outside any more; it may raise. `waits`: until the name servers know.
        """
        async with self._role_change:
            if self.ground.role.is_master:
                return
            if not self._serves_role:
                self.ground.role.broker_id = MASTER_ID
                self.cluster.master.forget()
                return
            await self._lead(ready)
            self.ground.role.broker_id = MASTER_ID
            self.cluster.master.forget()
            self.replicas.lead()
            self._serve_role()
        await self._tell_name_servers(waits)

    async def _lead(self, ready: Callable[[], Awaitable[None]] | None) -> None:
        """Stop the wings of a slave, start those of a master: all of them, or none.

        First nothing of a master is appended any more.
        """
        await self.replicas.stop_following()
        await stop_each(*[wing.stop for wing in reversed(self._slave_wings)])
        try:
            if ready is not None:
                await ready()
            lower_to_ends(self.offsets, self.store.next_offset)
            for wing in self._master_wings:
                await wing.start()
        except BaseException:
            await self._follow()
            raise

    async def _stand_still(self, copied: Callable[[], Awaitable[None]], before: int) -> None:
        """Stop the wings of a master and await `copied`; if that fails, go on in the role of before."""
        await stop_each(*[wing.stop for wing in reversed(self._master_wings)])
        try:
            await copied()
        except BaseException:
            for wing in self._master_wings:
                await wing.start()
            self.ground.role.broker_id = before
            self._serve_role()
            raise

    async def _follow(self) -> None:
        """Stop the wings of a master, start those of a slave."""
        await stop_each(*[wing.stop for wing in reversed(self._master_wings)])
        for wing in self._master_wings:
            wing.follow()
        await self.replicas.follow()
        for slave_wing in self._slave_wings:
            if not slave_wing.is_running:
                await slave_wing.start()

    async def _tell_name_servers(self, waits: bool) -> None:
        """Register under the new role, unless the broker stops: it unregisters then."""
        registration = self.cluster.registration
        if registration.is_running:
            task = registration.spawn("role", registration.register())
            if waits:
                await asyncio.wait({task})

    def refuse_messages(self, why: str) -> None:
        """Have a master refuse messages for this reason, until `take_messages`. A slave keeps it in mind."""
        self._pause(why)

    def take_messages(self) -> None:
        """Have a master take messages, also when it refused them before. A slave keeps it in mind."""
        self._pause("")

    def _pause(self, pause: str) -> None:
        if pause != self.ground.role.pause:
            self.ground.role.pause = pause
            if self._serves_role:
                self._serve_role()

    def _serve_role(self) -> None:
        """Serve the requests of this role, and refuse those of the other."""
        role = self.ground.role
        is_master = role.is_master and not role.pause
        changes: tuple[list[int], Handler] = self.administration.codes_of_master, self.administration.refuse
        for codes, refuse in [changes, *[(wing.codes, wing.refuse) for wing in self._master_wings]]:
            if is_master:
                self._dispatcher.take_in(codes)
            else:
                self._dispatcher.turn_away(codes, refuse)
        # A slave answers no pull in a run: what it finds is not all there is to say (reads/replica_choice.py).
        reading = (self.reading,) if role.is_master else ()
        wings = (self.sending, *reading, self.popping) if is_master else reading
        run = plain_runs.signed(self.ground, plain_runs.one_of(wing.run for wing in wings))
        self._dispatcher.serve_runs(run, passes=self._passes)

    # -- addresses -----------------------------------------------------------------------------------------------------

    def link_inside(self) -> ServerLink | None:
        """The serving end of a connection inside this process: it is served like one that was accepted."""
        return self._servers[0].link_inside()

    @property
    def address(self) -> str:
        """`host:port` under which clients find this broker."""
        return "{}:{}".format(*self.ground.role.address())

    @property
    def fast_address(self) -> str | None:
        """`host:port` of the fast listener, if there is one."""
        return f"{self.ground.role.host}:{self._servers[1].port}" if len(self._servers) > 1 else None

    def _say_where(self) -> None:
        config = self.config.now
        _log.info("broker %s listens on %s:%d", config.broker_name, config.listen_host, self._servers[0].port)
        if config.listen_host.startswith("127.") and not self.ground.role.host.startswith("127."):
            _log.warning(
                "clients are told to come to %s (brokerIP1), but the broker listens to this machine only:"
                " set bindAddress=0.0.0.0",
                self.address,
            )

    # -- messages that arrive ------------------------------------------------------------------------------------------

    def _is_awaited(self, topic: str, queue_id: int) -> bool:
        return topic in self._arrivals or any(each.is_awaited(topic, queue_id) for each in self._listeners)

    def _message_arrived(self, topic: str, queue_id: int, max_offset: int, tag_code: int, _store_ms: int) -> None:
        for listener in self._listeners:
            listener.arrived(topic, queue_id, max_offset, tag_code)
        arrived = self._arrivals.get(topic)
        if arrived is not None:
            arrived(queue_id)


def _host(config: BrokerConfig) -> str:
    """The address that clients are told."""
    if config.advertised_host:
        return config.advertised_host
    return local_address() if config.listen_host in _EVERY_ADDRESS else config.listen_host
