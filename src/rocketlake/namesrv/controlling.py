"""The controller inside a name server, by its settings.

Owns        the settings -> a register and a controller on it; the order in which both start and stop.
Must not know   decisions, the requests of brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import Files
from rocketlake.base.service import Service, stop_each
from rocketlake.controller.controller import Controller
from rocketlake.controller.etcd.register import EtcdRegister
from rocketlake.controller.etcd.settings import EtcdSettings
from rocketlake.controller.registers.file import FileRegister
from rocketlake.namesrv.config import LiveConfig, NameServerConfig
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.gate.signing import Sign
from rocketlake.net.local_address import local_address
from rocketlake.net.network import Network

__all__ = ["Controlling", "register_path"]

_ASK_SECONDS: Final = 2.0
"""For one question to etcd: a broker waits for 3 s, and should hear what is wrong."""
_ANY_ADDRESS = frozenset(("0.0.0.0", "::", ""))


class Controlling(Service):
    """A register and the controller on it."""

    def __init__(
        self,
        live: LiveConfig,
        port: Callable[[], int],
        *,
        gate: AccessGate,
        sign: Sign,
        clock: Clock,
        files: Files,
        network: Network,
        etcd_network: Network,
    ) -> None:
        """`port`: of the name server, known when it is up. Raises UsageError: a setting of etcd that cannot be used.

        `network`: to brokers. Etcd has certificates of its own, so `etcd_network` does not encrypt.
        """
        super().__init__("controlling", clock)
        config = live.now
        self._port = port
        self._config = config
        self._register = _register(config, clock, files, etcd_network)
        self.controller = Controller(
            self._register,
            address=self._address,
            clock=clock,
            profile=config.controller_profile,
            gate=gate,
            sign=sign,
            unclean=lambda: live.now.enable_elect_unclean_master,
            network=network,
        )
        self.adopt(self._register, self.controller)

    async def start(self) -> None:
        """StoreError if the register is a file that cannot be used. Etcd may come later: health is red until then."""
        await super().start()
        await self._register.start()
        try:
            await self.controller.start()
        except BaseException:
            await self._register.stop()
            raise

    async def stop(self) -> None:
        """The register ends last."""
        await stop_each(self.controller.stop, self._register.stop)
        await super().stop()

    def _address(self) -> str:
        config = self._config
        host = local_address() if config.listen_host in _ANY_ADDRESS else config.listen_host
        return config.controller_address or f"{host}:{self._port()}"


def register_path(config: NameServerConfig) -> Path:
    """The file of the register."""
    folder = Path(config.controller_store_path) if config.controller_store_path else None
    return (folder or config.kv_config_path.parent / "controller") / "register.json"


def _register(config: NameServerConfig, clock: Clock, files: Files, network: Network) -> EtcdRegister | FileRegister:
    if not config.controller_etcd_addresses:
        return FileRegister(register_path(config), files=files, clock=clock)
    settings = EtcdSettings(
        addresses=config.controller_etcd_addresses,
        root=config.controller_etcd_root,
        user=config.controller_etcd_user,
        password_file=_file(config.controller_etcd_password_file),
        ca_file=_file(config.controller_etcd_ca_file),
        certificate_file=_file(config.controller_etcd_cert_file),
        key_file=_file(config.controller_etcd_key_file),
        unsafe_versions=config.controller_etcd_unsafe_versions,
        ask_seconds=_ASK_SECONDS,
    )
    return EtcdRegister(settings, network, clock)


def _file(text: str) -> Path | None:
    return Path(text) if text else None
