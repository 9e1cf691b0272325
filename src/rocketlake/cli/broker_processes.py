"""`rocketlake run brokers -n 4`: several masters of a cluster on one machine, each a process of its own.

Owns        their names, ports, folders and settings; new topics are made on all of them.
Must not know   options and output of the command (serve.py), how a process is kept (kept_process.py).

One thread serves a broker, so it fills one core. More cores serve more brokers: each with a name, a store and links of
its own, for clients as if they were machines. A topic that its first send makes is made by one of them; the others get
it within a second, and producers use it there with their next look at the route (every 30 s).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.topics import Topics
from rocketlake.auth.credentials import Credentials
from rocketlake.base.errors import RocketLakeError, UsageError
from rocketlake.base.service import stop_each
from rocketlake.base.settings.config_file import read_properties
from rocketlake.broker.config import BrokerConfig, BrokerRole, load_broker_conf
from rocketlake.cli.given import grpc_ports
from rocketlake.cli.kept_process import KeptProcesses, ServerProcess, ports_of_brokers, write_settings
from rocketlake.client.calls.reach import net_client
from rocketlake.client.config import ClientConfig
from rocketlake.net.http.settings import MetricsExporter

__all__ = ["BrokerProcesses"]

_SPREAD_SECONDS: Final = 1.0
_OF_ONE: Final = {
    "fastListenPort": "leave it out: each has its listenPort - 2",
    "haListenPort": "leave it out: each has its listenPort + 1",
    "accountsPath": "leave it out: each has its users in the folder of its store",
}
"""Settings that several brokers of one machine cannot share, and what to do instead."""


class BrokerProcesses(KeptProcesses):
    """The brokers of one folder."""

    def __init__(
        self, count: int, config: Path | None, *, namesrv: str | None, store: Path | None, say: Callable[[str], None]
    ) -> None:
        """`config`: a broker.conf for all; its listenPort is that of the first. UsageError for settings of one only."""
        super().__init__("brokers", say)
        self._given = read_properties(config) if config is not None else {}
        given = {"namesrvAddr": namesrv, "storePathRootDir": store}
        self._config, _ = load_broker_conf(config, {key: value for key, value in given.items() if value is not None})
        _check(self._config, self._given)
        self.folder = self._config.store_folder.absolute()
        grpc = grpc_ports(self._given, count)
        self.brokers = [self._make(number, port, grpc[number - 1]) for number, port in enumerate(self._ports(count), 1)]
        self._seen: set[str] = set()
        self._cluster = Cluster(";".join(self._config.namesrv_addresses), net_client(self._client_config()))

    @property
    def names(self) -> list[str]:
        """The names of the brokers."""
        return [broker.name for broker in self.brokers]

    async def start(self) -> None:
        """All at once. RocketLakeError if one does not come up; then none is left running."""
        await super().start()
        try:
            await asyncio.gather(*[broker.begin() for broker in self.brokers])
            self._seen = set(await self._topics())
        except BaseException:
            await self.stop()
            raise
        self.keep_running(self.brokers)
        self.every("new topics", _SPREAD_SECONDS, self._spread)

    async def stop(self) -> None:
        """What was acknowledged is on disk when this returns."""
        await stop_each(super().stop, self._end, self._cluster.net.close)

    async def _end(self) -> None:
        await asyncio.gather(*[broker.end() for broker in self.brokers])

    # -- topics --------------------------------------------------------------------------------------------------------

    async def _topics(self) -> list[str]:
        return await Topics(self._cluster).names()

    async def _spread(self) -> None:
        """Make new topics of one of these brokers on the others. Topics of other machines are theirs.

        RocketLakeError for one that could not be made: the others are, and it is tried again.
        """
        names = await self._topics()
        failure: RocketLakeError | None = None
        for topic in sorted(set(names) - self._seen):
            try:
                there = await self._cluster.settings(topic)
                known = next((there[name] for name in self.names if name in there), None)
                if known is not None:
                    await self._cluster.make_topic({name: known for name in self.names if name not in there})
            except RocketLakeError as error:
                failure = error
            else:
                self._seen.add(topic)
        self._seen.intersection_update(names)
        if failure is not None:
            raise failure

    def _client_config(self) -> ClientConfig:
        config = self._config
        return ClientConfig(
            namesrv=";".join(config.namesrv_addresses),
            use_tls=config.tls.dials,
            tls_config_file=config.tls_config_file,
            credentials=_credentials(config),
        )

    # -- processes -----------------------------------------------------------------------------------------------------

    def _ports(self, count: int) -> list[int]:
        return ports_of_brokers(self._config.listen_port, count)

    def _make(self, number: int, port: int, grpc: int) -> ServerProcess:
        config = self._config
        name = f"{config.broker_name}-{number}"
        metrics = config.metrics_port + number - 1 if config.metrics_port else 0
        settings = {
            **self._given,
            "brokerName": name,
            "listenPort": str(port),
            "namesrvAddr": ";".join(config.namesrv_addresses),
            "storePathRootDir": str(self.folder / name),
            **({"metricsPromExporterPort": str(metrics)} if config.metrics_exporter is MetricsExporter.PROM else {}),
            **({"grpcServerPort": str(grpc)} if grpc >= 0 else {}),
        }
        conf = write_settings(self.folder / f"{name}.conf", settings)
        return ServerProcess(name, ("run", "broker", "-c", str(conf)), self.folder / f"{name}.log", self._say)


def _check(config: BrokerConfig, given: Mapping[str, str]) -> None:
    for key, cure in _OF_ONE.items():
        if key in given:
            raise UsageError(f"setting {key} is for one broker, and `run brokers` starts several", hint=cure)
    if config.broker_role is BrokerRole.SLAVE:
        raise UsageError(
            "setting brokerRole = SLAVE: `run brokers` starts masters",
            hint="start a slave with `rocketlake run broker`",
        )
    if not config.namesrv_addresses:
        raise UsageError("several brokers are one cluster by a name server only", hint="give -n host:port")
    if config.authentication_enabled and _credentials(config) is None:
        raise UsageError(
            "new topics are made on all brokers by a user, and none is known here",
            hint="set innerClientAuthenticationCredentials, or ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY",
        )


def _credentials(config: BrokerConfig) -> Credentials | None:
    if config.inner_credentials:
        return Credentials.parse(config.inner_credentials, "innerClientAuthenticationCredentials")
    return Credentials.from_environment()
