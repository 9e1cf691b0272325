"""Server: listens, accepts, drains.

Owns        the set of open links, the limit on their number, the order of a graceful stop.
Must not know   the table of handlers (dispatcher.py), bytes (link.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from rocketlake.base.callbacks import call_each
from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.endpoint import Endpoint
from rocketlake.net.limits import NetLimits
from rocketlake.net.network import Listener, Network, TcpNetwork
from rocketlake.net.peer import Peer
from rocketlake.net.server_link import ServerLink
from rocketlake.net.shares import Shares
from rocketlake.net.sweeper import Sweeper
from rocketlake.net.turns import Turns
from rocketlake.net.unfinished import UnfinishedBytes
from rocketlake.protocol.frame import Codec

log: Final = get_logger(__name__)

_CLOSE_SECONDS: Final = 0.5
"""How long a peer may take to read our last bytes."""


class Server(Service):
    """Serves a dispatcher on one port. Start once, stop once."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        limits: NetLimits | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
        codec: Codec = Codec.JSON,
        turns: Turns | None = None,
        unfinished: UnfinishedBytes | None = None,
    ) -> None:
        super().__init__("server", clock)
        self.dispatcher = dispatcher
        self.host = host
        self.links: dict[Peer, None] = {}
        """Open links, in the order they came."""
        self.draining = False
        self.on_link_lost: list[Callable[[Peer], None]] = []
        self._port = port
        self._limits = limits or NetLimits()
        self._network = network or TcpNetwork()
        warnings, turns = RareWarnings(log, clock=self._clock), turns or Turns(self._clock, self._limits.turn_seconds)
        self._endpoint = Endpoint(dispatcher, self._limits, self._clock, codec, warnings, turns)
        self._unfinished = unfinished or UnfinishedBytes(self._limits.unfinished_bytes)
        self._listener: Listener | None = None
        self._sweeper = Sweeper(self._clock)
        self.adopt(self._sweeper)
        self._hosts = Shares(self._limits.connections, self._limits.connections_of_host)
        self._last_lost: asyncio.Future[None] | None = None

    @property
    def port(self) -> int:
        """The port of the listener; before `start` the port of the settings."""
        return self._listener.port if self._listener is not None else self._port

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"

    async def start(self) -> None:
        """Listens. Raises CannotListen when it cannot."""
        await super().start()
        await self._sweeper.start()
        self._listener = await self._network.listen(self._make_link, self.host, self._port)

    async def stop(self, drain_seconds: float = 3.0) -> None:
        """Accepts no more, lets open requests finish for `drain_seconds`, closes every link.

        Meanwhile a new request is answered GO_AWAY if its client is new enough to understand that; others are served.
        """
        self.draining = True
        if self._listener is not None:
            await self._listener.close()
        deadline = self._clock.monotonic() + drain_seconds
        # Polling: a server stops once in its life, an event would cost something with every answer.
        while self._clock.monotonic() < deadline and any(link.unfinished for link in self.links):
            await self._clock.sleep(0.01)
        await self._close_links()
        await self._sweeper.stop()
        await super().stop()

    async def _close_links(self) -> None:
        """Closes after the last bytes; a peer that does not read them is cut."""
        for link in tuple(self.links):
            link.close()
        if not await self._gone(_CLOSE_SECONDS):
            for link in tuple(self.links):
                link.abort("stuck", "the server stops and the peer does not read")
            await self._gone(_CLOSE_SECONDS)

    async def _gone(self, timeout_seconds: float) -> bool:
        """Waits until the last link is closed; False when the time is over."""
        if self.links:
            self._last_lost = asyncio.get_running_loop().create_future()
            await self._clock.wait(self._last_lost, timeout_seconds)
        return not self.links

    def sweep(self) -> None:
        """Sweeps all links now (for tests; otherwise the timer of the sweeper does)."""
        self._sweeper.sweep()

    def link_inside(self) -> ServerLink | None:
        """The serving end of a connection inside this process, as a listener makes it; None from the stop on."""
        return None if self.draining or not self.is_running else self._make_link()

    def opened(self, link: Peer) -> str:
        """A connection came (called by the link). Returns why there is no room, "" if there is."""
        host, hosts = link.remote[0], self._hosts
        if not hosts.has_room(host):
            if hosts.is_full:
                return f"{hosts.total} connections are open, no more are taken"
            return f"{hosts.of(host)} connections of {host} are open, no more of it are taken (connectionsOfHostMax)"
        hosts.take(host)
        self.links[link] = None
        self._sweeper.add(link)
        return ""

    def lost(self, link: Peer) -> None:
        """A connection is gone (called by the link)."""
        if link not in self.links:
            return
        del self.links[link]
        self._hosts.give(link.remote[0])
        self._sweeper.discard(link)
        if not self.links and self._last_lost is not None and not self._last_lost.done():
            self._last_lost.set_result(None)
        call_each(self.on_link_lost, link)

    def expects(self, link: Peer) -> None:
        """A link asked its client something (called by the link)."""
        self._sweeper.expect(link)

    def _make_link(self) -> ServerLink:
        return ServerLink(self, self._endpoint, self._unfinished)
