"""Drops brokers that fell silent.

Owns        how often the route table is searched for them.
Must not know   how a broker is heard.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.namesrv.route_table import RouteTable

__all__ = ["Liveness"]


class Liveness(Service):
    """Every few seconds: brokers past their time are dropped, their links closed."""

    def __init__(self, routes: RouteTable, clock: Clock, interval_ms: int = 5000) -> None:
        """`interval_ms`: scanNotActiveBrokerInterval."""
        super().__init__("liveness")
        self._routes = routes
        self._clock = clock
        self._interval_seconds = interval_ms / 1000

    async def start(self) -> None:
        """Begin to look."""
        await super().start()
        self.spawn("scan", self._run())

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(self._interval_seconds)
            for link in self._routes.expire():
                link.close()
