"""Drops brokers that fell silent or whose link closed.

Owns        the pause between two searches for silent brokers; the log line about each dropped broker.
Must not know   the requests by which a broker is heard.
"""

from __future__ import annotations

from rocketlake.base.callbacks import call
from rocketlake.base.clock import Clock
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.namesrv.change_line import Change, ChangeLine
from rocketlake.namesrv.route_table import Link, RouteTable

__all__ = ["Liveness"]

_log = get_logger(__name__)


class Liveness(Service):
    """Every few seconds: drops the brokers whose time is over, and closes their links."""

    def __init__(self, routes: RouteTable, changes: ChangeLine, clock: Clock, interval_ms: int = 5000) -> None:
        """`interval_ms`: scanNotActiveBrokerInterval."""
        super().__init__("liveness", clock)
        self._routes = routes
        self._changes = changes
        self._interval_seconds = interval_ms / 1000

    async def start(self) -> None:
        """Begin to look."""
        await super().start()
        self.every("scan", self._interval_seconds, self._drop_silent)

    def _drop_silent(self) -> None:
        self._changes.add(self._dropping_silent())

    def link_lost(self, link: Link) -> None:
        """A link is gone: drop its brokers, behind the changes that they asked for before."""
        self._changes.add(self._dropping_lost(link))

    def _dropping_silent(self) -> Change:
        for dropped in (yield from self._routes.expire()):
            _log.warning("broker %s (%s) is dropped: it fell silent", dropped.broker_name, dropped.address)
            call(dropped.link.close)

    def _dropping_lost(self, link: Link) -> Change:
        for dropped in (yield from self._routes.close_link(link)):
            _log.warning("broker %s (%s) is dropped: its link closed", dropped.broker_name, dropped.address)
