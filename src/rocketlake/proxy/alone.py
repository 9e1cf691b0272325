"""A proxy in a process of its own, with its pages: metrics, health, readiness.

Owns        both as one server, the labels of its metrics.
Must not know   what is measured (families.py), the parts of the proxy.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.service import Service, stop_each
from rocketlake.net.http.exposition import Family, Pace
from rocketlake.net.http.monitor import Monitor
from rocketlake.proxy.config import ProxyConfig, proxy_of
from rocketlake.proxy.families import proxy_families

__all__ = ["ProxyAlone"]


class ProxyAlone(Service):
    """Start once, stop once."""

    def __init__(self, config: ProxyConfig, *, clock: Clock | None = None) -> None:
        """UsageError for settings."""
        super().__init__("proxy alone", clock or SystemClock())
        self.proxy = proxy_of(config, clock=self._clock)
        self.monitor = Monitor(
            config.metrics,
            {"node_type": "proxy", "node_id": f"{config.listen_host}:{config.grpc_port}"},
            self._collect,
            self._not_ready,
            clock=self._clock,
            network=self.proxy.network,
        )
        self.adopt(self.proxy, self.monitor)

    @property
    def address(self) -> str:
        """`host:port` that clients come to."""
        return self.proxy.address

    async def start(self) -> None:
        """Listen at both ports. CannotListen if one is taken; then nothing is open."""
        await super().start()
        try:
            await self.proxy.start()
            await self.monitor.start()
        except BaseException:
            await self.stop()
            raise
        self.spawn("first look at the cluster", self.proxy.cluster.look())

    async def stop(self) -> None:
        """The pages last: they say that clients should go elsewhere."""
        await stop_each(self.proxy.stop, self.monitor.stop, super().stop)

    async def _collect(self, _pace: Pace) -> AsyncGenerator[Family, None]:
        for family in proxy_families(self.proxy.server):
            yield family

    def _not_ready(self) -> list[str]:
        server = self.proxy.server
        return [] if server.is_running and not server.draining else ["the proxy starts or stops"]
