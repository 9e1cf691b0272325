"""Settings of a proxy in a process of its own.

Owns        names, defaults, ranges; reading a proxy.conf.
Must not know   the settings of a proxy beside a broker: they are the broker's (beside.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.auth.server_accounts import ServerAccounts
from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.errors import UsageError
from rocketlake.base.settings.config_file import load, setting
from rocketlake.net.account_watch import AccountWatch
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.gate.signing import signing
from rocketlake.net.network import Network
from rocketlake.net.server_settings import MonitoredSettings
from rocketlake.proxy.proxy import Proxy

__all__ = ["ProxyConfig", "load_proxy_conf", "proxy_of"]


@dataclass(frozen=True, slots=True)
class ProxyConfig(MonitoredSettings):
    """Settings of one proxy; Java names are those of ProxyConfig and NettyServerConfig."""

    listen_host: str = setting(
        "127.0.0.1", java="bindAddress", why="the address to listen on; 0.0.0.0 opens it to the network"
    )
    grpc_port: int = setting(8081, java="grpcServerPort", low=0, high=65535, why="0 takes any free port")
    namesrv_addresses: tuple[str, ...] = setting(
        (), java="namesrvAddr", why="name servers of the cluster, host:port;host:port"
    )
    body_bytes_max: int = setting(
        4 << 20,
        java="maxMessageSize",
        low=10,
        high=2**30,
        why="largest body of a message; brokers have their own limit",
    )

    @property
    def certificate_users(self) -> bool:
        """Never: clients of gRPC sign."""
        return False


def load_proxy_conf(path: Path | None = None, overrides: Mapping[str, Any] | None = None) -> ProxyConfig:
    """The settings in a proxy.conf. UsageError names a key that is unknown."""
    return load(ProxyConfig, path, overrides)


def proxy_of(config: ProxyConfig, *, clock: Clock | None = None, network: Network | None = None) -> Proxy:
    """A proxy by these settings. UsageError."""
    if not config.namesrv_addresses:
        raise UsageError(
            "a proxy needs the name servers of its cluster", hint="give -n host:port, or namesrvAddr in the file"
        )
    accounts = ServerAccounts(config, Path.home() / "rocketlake-proxy" / "accounts.json", PosixFiles())
    accounts.load()
    gate = AccessGate(lambda: AdminAccess.LOOPBACK, accounts.file, authorizes=config.authorization_enabled)
    return Proxy(
        host=config.listen_host,
        port=config.grpc_port,
        name_servers=config.namesrv_addresses,
        gate=gate,
        sign=signing(accounts.credentials),
        tls=config.tls,
        network=network,
        clock=clock,
        body_bytes_max=lambda: config.body_bytes_max,
        connections_of_host=config.connections_of_host_max,
        more=[AccountWatch(accounts.file, clock or SystemClock())] if accounts.file is not None else [],
    )
