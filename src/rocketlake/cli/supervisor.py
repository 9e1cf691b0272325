"""`rocketlake up --replicas N`: a name server with its controller and a group of brokers, each a process of its own.

Owns        which processes there are, their folders and settings, the order of start and stop.
Must not know   options and output of the command (serve.py), how a process is kept (kept_process.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rocketlake.auth.server_accounts import AUTH_SETTINGS
from rocketlake.base.service import stop_each
from rocketlake.cli.given import grpc_ports
from rocketlake.cli.kept_process import KeptProcesses, ServerProcess, ports_of_brokers, write_settings
from rocketlake.net.http.settings import METRICS_SETTINGS
from rocketlake.net.tls.settings import TLS_SETTINGS
from rocketlake.standalone import SETTINGS

__all__ = ["Supervisor"]


class Supervisor(KeptProcesses):
    """All processes of one folder."""

    def __init__(
        self,
        folder: Path,
        replicas: int,
        *,
        namesrv_port: int,
        broker_port: int,
        metrics_ports: Sequence[int] = (),
        settings: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        """Port 0 takes any free one; else brokers take every tenth from `broker_port` on. `say`: tell the user.

        `metrics_ports`: of the name server and then of each broker; none: there are no metrics.
        """
        super().__init__("supervisor", say)
        self._folder = folder.absolute()
        self._replicas = replicas
        self._namesrv_port = namesrv_port
        self._broker_port = broker_port
        self._metrics_ports = metrics_ports
        # One file for all of them: each would make an administrator of its own otherwise, whom the others refuse.
        self._settings = {"accountsPath": str(self._folder / "accounts.json"), **settings}
        self.name_server = self._make_name_server()
        self.brokers: list[ServerProcess] = []

    @property
    def group(self) -> str:
        """The name of the brokers' group."""
        return self._settings.get("brokerName", SETTINGS["brokerName"])

    async def start(self) -> None:
        """The name server first: it gives the brokers their ids."""
        await super().start()
        try:
            await self.name_server.begin()
            self._keep_port(self.name_server)
            self.brokers = [self._make_broker(number) for number in range(1, self._replicas + 1)]
            for broker in self.brokers:  # one after the other: so ids follow the numbers of the folders
                await broker.begin()
        except BaseException:
            await self.stop()
            raise
        self.keep_running([self.name_server, *self.brokers])

    async def stop(self) -> None:
        """Brokers first. What was acknowledged is on disk when this returns."""
        await stop_each(super().stop, self._end_brokers, self.name_server.end)

    async def _end_brokers(self) -> None:
        """All at once: each of them waits for others that it hands over to."""
        await asyncio.gather(*[broker.end() for broker in self.brokers])

    @staticmethod
    def _keep_port(server: ServerProcess) -> None:
        """Start it again under the port it has now: others know it by that."""
        server.words = (*server.words, "--port", server.address.rpartition(":")[2])

    def _make_name_server(self) -> ServerProcess:
        folder = self._folder / "namesrv"
        conf = write_settings(
            folder / "namesrv.conf",
            {
                "enableControllerInNamesrv": "true",
                "kvConfigPath": str(folder / "kvConfig.json"),
                **self._metrics(0),
                **{key: self._settings[key] for key in (*TLS_SETTINGS, *AUTH_SETTINGS) if key in self._settings},
            },
        )
        words = ("run", "namesrv", "-c", str(conf), "--host", "127.0.0.1", "--port", str(self._namesrv_port))
        return ServerProcess("name server", words, self._folder / "namesrv.log", self._say)

    def _metrics(self, number: int) -> dict[str, str]:
        """The settings of the metrics of one server; 0: the name server."""
        if not self._metrics_ports:
            return {}
        given = {key: self._settings[key] for key in METRICS_SETTINGS if key in self._settings}
        return {"metricsExporterType": "PROM", **given, "metricsPromExporterPort": str(self._metrics_ports[number])}

    def _grpc(self, number: int) -> dict[str, str]:
        """Where one broker serves gRPC, if the group does."""
        ports = grpc_ports(self._settings, self._replicas)
        return {"grpcServerPort": str(ports[number - 1])} if "grpcServerPort" in self._settings else {}

    def _make_broker(self, number: int) -> ServerProcess:
        folder = self._folder / f"broker-{number}"
        port = ports_of_brokers(self._broker_port, self._replicas)[number - 1]
        conf = write_settings(
            folder / "broker.conf",
            {
                **SETTINGS,
                **self._settings,
                **self._metrics(number),
                **self._grpc(number),
                "storePathRootDir": str(folder / "store"),
                "namesrvAddr": self.name_server.address,
                "enableControllerMode": "true",
                "controllerAddr": self.name_server.address,
                "bindAddress": "127.0.0.1",
                "listenPort": str(port),
                "fastListenPort": "0",
            },
        )
        log_file = self._folder / f"broker-{number}.log"
        return ServerProcess(f"broker {number}", ("run", "broker", "-c", str(conf)), log_file, self._say)
