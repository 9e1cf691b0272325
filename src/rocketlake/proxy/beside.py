"""A proxy beside a broker, in its process: `grpcServerPort` of the broker's settings.

Owns        what the proxy takes from the broker's settings; both as one server.
Must not know   the proxy's parts, what brokers do.

The proxy asks the broker by requests, and any other broker of its cluster. It has the broker's address, certificates,
users and rules, so the port is open to the same peers as the broker's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rocketlake.base.errors import UsageError
from rocketlake.base.service import Service, stop_each
from rocketlake.broker.broker import Broker
from rocketlake.net.gate.signing import signing
from rocketlake.proxy.proxy import Proxy

__all__ = ["WithProxy", "proxy_beside"]


def proxy_beside(broker: Broker) -> Proxy:
    """A proxy as the broker's settings say. UsageError: the broker registers with no name server."""
    config, ground = broker.config.now, broker.ground
    if not config.namesrv_addresses:
        raise UsageError(
            "grpcServerPort needs a name server: it knows the routes that clients ask for",
            hint="set namesrvAddr, or leave grpcServerPort out",
        )
    proxy = Proxy(
        host=config.listen_host,
        port=config.grpc_port,
        name_servers=config.namesrv_addresses,
        gate=ground.gate,
        sign=signing(ground.accounts.credentials),
        tls=config.tls,
        body_bytes_max=lambda: broker.store.config.body_bytes_max,
        connections_of_host=config.connections_of_host_max,
    )
    host, _, port = broker.address.rpartition(":")
    proxy.inside.add(host, int(port), broker.link_inside)
    return proxy


class _Server(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class WithProxy(Service):
    """A server with a broker, and a proxy beside it: started behind the broker, stopped before it."""

    def __init__(self, server: _Server, broker: Callable[[], Broker]) -> None:
        """`broker`: gives it once the server has started."""
        super().__init__("broker with proxy")
        self._server = server
        self._broker = broker
        self.proxy: Proxy | None = None

    @property
    def address(self) -> str:
        """`host:port` of the proxy, known from the start on."""
        return self.proxy.address if self.proxy is not None else ""

    async def start(self) -> None:
        """Both, or none."""
        await super().start()
        await self._server.start()
        try:
            self.proxy = proxy_beside(self._broker())
            self.adopt(self.proxy)
            await self.proxy.start()
        except BaseException:
            await self._server.stop()
            raise

    async def stop(self) -> None:
        """The proxy first: clients go to another one while this broker still answers."""
        proxies = [] if self.proxy is None else [self.proxy.stop]
        await stop_each(*proxies, self._server.stop)
        await super().stop()
