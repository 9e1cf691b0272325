"""A name server: its parts, started and stopped in order.

Owns        the wiring of the parts.
Must not know   the meaning of requests.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from rocketlake.auth.server_accounts import ServerAccounts
from rocketlake.base.clock import Clock
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.health import Health
from rocketlake.base.logs import set_level
from rocketlake.base.service import Service, stop_each
from rocketlake.controller.families import ControllerFamilies
from rocketlake.namesrv.change_line import ChangeLine
from rocketlake.namesrv.config import LiveConfig, NameServerConfig
from rocketlake.namesrv.controlling import Controlling
from rocketlake.namesrv.dispatch_table import controller_settings, rows
from rocketlake.namesrv.families import route_families
from rocketlake.namesrv.kv_config import KVConfig
from rocketlake.namesrv.liveness import Liveness
from rocketlake.namesrv.processors.broker import Brokers
from rocketlake.namesrv.processors.kv import KV
from rocketlake.namesrv.processors.route import Routes
from rocketlake.namesrv.processors.settings import Settings
from rocketlake.namesrv.route_table import RouteTable
from rocketlake.namesrv.succession import Succession
from rocketlake.net.account_requests import AccountRequests
from rocketlake.net.account_watch import AccountWatch
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.gate.audit import Audit
from rocketlake.net.gate.signing import Sign, signing
from rocketlake.net.http.exposition import Family, Pace
from rocketlake.net.http.monitor import Monitor
from rocketlake.net.limits import NetLimits
from rocketlake.net.network import Network, TcpNetwork
from rocketlake.net.reply_steps import in_steps
from rocketlake.net.server import Server
from rocketlake.net.tls.certificates import Certificates
from rocketlake.net.tls.network import SecureNetwork
from rocketlake.net.turns import Turns

__all__ = ["NameServer"]


class NameServer(Service):
    """One name server. Name servers do not talk to each other: brokers register with each."""

    def __init__(
        self,
        config: NameServerConfig,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        network: Network | None = None,
    ) -> None:
        super().__init__("name server", clock)
        clock, files = self._clock, files or PosixFiles()
        self.health = Health(clock)
        self._certificates = Certificates(config.tls, clock)
        plain: Network = network or TcpNetwork()
        secure = SecureNetwork(plain, self._certificates)
        self.routes, self._live = RouteTable(clock), LiveConfig(config)
        self._kv_config = KVConfig(config.kv_config_path, files)
        limits = NetLimits(connections_of_host=config.connections_of_host_max)
        turns = Turns(clock, limits.turn_seconds)
        self._accounts = ServerAccounts(config, config.kv_config_path.with_name("accounts.json"), files)
        accounts, sign = self._accounts.file, signing(self._accounts.credentials)
        gate = self._make_gate(config)
        changes = ChangeLine(turns, clock)
        self._liveness = Liveness(self.routes, changes, clock, config.scan_not_active_broker_interval)
        self._controlling = self._make_controlling(gate, sign, files, secure, plain)
        brokers = Brokers(self.routes, self._kv_config, self._live, gate, clock)
        self._succession = Succession(self.routes, clock, sign, secure) if self._controlling is None else None
        settings = Settings(self._live, self._apply)
        table = rows(
            Routes(self.routes, self._kv_config, self._live),
            brokers,
            KV(self._kv_config),
            settings,
            changes,
            lambda serve: in_steps(serve, turns, clock),
            self._succession.handler if self._succession is not None else lambda serve: serve,
        )
        if self._controlling is not None:
            controller = self._controlling.controller
            brokers.on_heartbeat.append(controller.heartbeat)
            brokers.has_place = controller.has_place
            table += [*controller.rows(), *controller_settings(settings)]
        audit = None
        if accounts is not None:
            audit = Audit(self._accounts.audit_path, files, clock, self.health)
            table += AccountRequests(accounts).rows()
            self.adopt(AccountWatch(accounts, clock))
        if self._succession is not None:
            brokers.has_left = self._succession.has_left
            self.adopt(self._succession)
        self._server = Server(
            Dispatcher(table, gate, audit),
            host=config.listen_host,
            port=config.listen_port,
            limits=limits,
            clock=clock,
            network=secure,
            turns=turns,
        )
        self._server.on_link_lost.append(self._liveness.link_lost)
        self.monitor = self._make_monitor(config, secure)
        self.adopt(self._certificates, self._liveness, self._server, self.monitor)
        if self._controlling is not None:
            self._server.on_link_lost.append(self._controlling.controller.link_lost)
            self.adopt(self._controlling)
        self._apply(config)

    def _make_gate(self, config: NameServerConfig) -> AccessGate:
        return AccessGate(
            lambda: self._live.now.admin_access,
            self._accounts.file,
            authorizes=config.authorization_enabled,
            believes_certificates=config.certificate_users,
        )

    def _make_controlling(
        self, gate: AccessGate, sign: Sign, files: Files, network: Network, etcd_network: Network
    ) -> Controlling | None:
        if not self._live.now.enable_controller:
            return None
        return Controlling(
            self._live,
            lambda: self._server.port,
            gate=gate,
            sign=sign,
            clock=self._clock,
            files=files,
            network=network,
            etcd_network=etcd_network,
        )

    def _make_monitor(self, config: NameServerConfig, network: Network) -> Monitor:
        controlling = self._controlling
        groups = None if controlling is None else ControllerFamilies(controlling.controller)

        async def collect(_pace: Pace) -> AsyncGenerator[Family, None]:
            for family in route_families(self.routes):
                yield family
            for family in () if groups is None else groups.collect():
                yield family

        def not_ready() -> list[str]:
            if not self._server.is_running or self._server.draining:
                return ["the name server starts or stops"]
            trouble = "" if controlling is None else controlling.controller.decider.trouble
            return [trouble] if trouble else []

        node = {"node_type": "nameserver", "node_id": f"{config.listen_host}:{config.listen_port}"}
        return Monitor(config.metrics, node, collect, not_ready, clock=self._clock, network=network)

    @property
    def _of_group(self) -> list[Service]:
        """What knows the masters of groups: the controller, or else the questions to old masters."""
        return [part for part in (self._controlling, self._succession) if part is not None]

    @property
    def address(self) -> str:
        """`host:port` it listens on; the port is known after start."""
        return self._server.address

    async def start(self) -> None:
        """Load KV settings and serve. StoreError if they cannot be read, CannotListen if the address is taken."""
        self._kv_config.load()
        self._accounts.load()
        await super().start()
        await self._certificates.start()
        await self._liveness.start()
        try:
            await self.monitor.start()
            for part in self._of_group:
                await part.start()
            await self._server.start()
        except BaseException:
            await self._stop_parts()
            raise

    async def stop(self, drain_seconds: float = 3.0) -> None:
        """Finish open requests for `drain_seconds`, close every link."""
        await stop_each(lambda: self._server.stop(drain_seconds), self._stop_parts)
        await super().stop()

    async def _stop_parts(self) -> None:
        await stop_each(
            *[part.stop for part in self._of_group],
            self._liveness.stop,
            self.monitor.stop,
            self._certificates.stop,
        )

    def _apply(self, config: NameServerConfig) -> None:
        self.routes.support_acting_master = config.support_acting_master
        self.routes.delete_missing_topics = config.delete_topic_with_broker_registration
        self.routes.version += 1
        set_level(config.log_level)
