"""A whole cluster in one process: a name server and a broker, on this machine only.

Owns        building both from one folder and two ports, starting and stopping them in order.
Must not know   the work of either. Used by `rocketlake up`, the test kit, notebooks and the demo.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rocketlake.auth.server_accounts import AUTH_SETTINGS
from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.service import stop_each
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import load_broker_conf
from rocketlake.namesrv.config import load_namesrv_conf
from rocketlake.namesrv.server import NameServer
from rocketlake.net.http.settings import METRICS_SETTINGS
from rocketlake.net.tls.settings import TLS_SETTINGS

__all__ = ["SETTINGS", "Standalone"]

SETTINGS: Mapping[str, str] = {
    "brokerName": "broker-a",
    # For one user's messages: small files take little room, and a pull may take more than on a shared broker.
    "mappedFileSizeCommitLog": str(64 << 20),
    "maxHashSlotNum": "500000",
    "maxIndexNum": "2000000",
    "maxTransferCountOnMessageInMemory": "1024",
    "maxTransferBytesOnMessageInMemory": str(2 << 20),
    "maxTransferCountOnMessageInDisk": "1024",
    "maxTransferBytesOnMessageInDisk": str(2 << 20),
    "maxFilterMessageSize": "65536",
    # Other programs run on the machine: a send that waited for 200 ms does not mean that the broker is overloaded.
    "waitTimeMillsInSendQueue": "3000",
}
"""Settings that differ from the defaults of a broker, by Java names."""


class Standalone:
    """`async with Standalone(folder) as cluster:` then clients use cluster.namesrv_address.

    `settings` are those of a broker.conf by their Java names; the name server encrypts by them, too. Without brokerRole
    and haListenPort among them there is no port for slaves. Port 0 takes any free one. Raises UsageError for a bad
    setting or a port in use, StoreError when the folder is in use or cannot be read.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        namesrv_port: int = 0,
        broker_port: int = 0,
        host: str = "127.0.0.1",
        metrics_ports: tuple[int, int] | None = None,
        settings: Mapping[str, Any] | None = None,
        files: Files | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`metrics_ports`: where broker and name server serve their metrics; None: as the settings say, or nowhere."""
        self._files = files or PosixFiles()
        self._clock = clock or SystemClock()
        self._root = Path(root).absolute()
        self._addresses = {"bindAddress": host, "listenPort": broker_port, "fastListenPort": 0}
        no_slaves = {} if settings and "brokerRole" in settings else {"haListenPort": "-1"}
        accounts = {"accountsPath": str(self._root / "accounts.json")}
        self.settings = {**no_slaves, **accounts, **(settings or {})}
        metrics: dict[str, Any] = {}
        if metrics_ports is not None:
            self.settings = {
                "metricsExporterType": "PROM",
                **self.settings,
                "metricsPromExporterPort": metrics_ports[0],
            }
            metrics = {key: value for key, value in self.settings.items() if key in METRICS_SETTINGS}
            metrics["metricsPromExporterPort"] = metrics_ports[1]
        self.name_server = NameServer(
            load_namesrv_conf(
                overrides={
                    "bindAddress": host,
                    "listenPort": namesrv_port,
                    "kvConfigPath": self._root / "namesrv" / "kvConfig.json",
                    **metrics,
                    **{key: self.settings[key] for key in (*TLS_SETTINGS, *AUTH_SETTINGS) if key in self.settings},
                }
            ),
            clock=self._clock,
            files=self._files,
        )
        self._broker: Broker | None = None

    @property
    def broker(self) -> Broker:
        """The broker; there is one from start on."""
        assert self._broker is not None, "not started"
        return self._broker

    @property
    def namesrv_address(self) -> str:
        """host:port of the name server; known from start on."""
        return self.name_server.address

    @property
    def broker_address(self) -> str:
        """host:port of the broker; known from start on."""
        return self.broker.address

    async def start(self) -> None:
        """Name server first, since the broker registers with it at once."""
        await self.name_server.start()
        try:
            config, store = load_broker_conf(
                overrides={
                    **SETTINGS,
                    "storePathRootDir": self._root / "store",
                    **self.settings,
                    **self._addresses,
                    "namesrvAddr": self.namesrv_address,
                },
                files=self._files,
            )
            self._broker = Broker(config, store, files=self._files, clock=self._clock)
            await self._broker.start()
        except BaseException:
            await self.name_server.stop()
            raise

    async def stop(self) -> None:
        """Broker first; every message that was acknowledged is on disk when this returns."""
        await stop_each(self.broker.stop, self.name_server.stop)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
