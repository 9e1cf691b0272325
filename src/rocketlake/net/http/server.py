"""HttpServer: a few pages for machines that watch this server.

Owns        the listener, the limits on connections and answers, which page a request asks for.
Must not know   what the pages say.

It serves what it was given by name, and nothing else: no file, no path below a page, no method but GET and HEAD.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.net.http.page import Page
from rocketlake.net.http.peer import HttpPeer
from rocketlake.net.network import Listener, Network

__all__ = ["HttpServer"]

_PEERS_MAX: Final = 32
_ANSWERS_MAX: Final = 4
"""Answers under way at once; the next one is told to come again."""
_SWEEP_SECONDS: Final = 1.0
_METHODS: Final = "GET, HEAD"


class HttpServer(Service):
    """Serves `pages` by their paths."""

    def __init__(
        self, pages: Mapping[str, Page], *, host: str, port: int, clock: Clock, network: Network, name: str = "http"
    ) -> None:
        super().__init__(name, clock)
        self.pages = dict(pages)
        self._host = host
        self._port = port
        self._network = network
        self._listener: Listener | None = None
        self.peers: dict[HttpPeer, None] = {}
        """Open connections, in the order they came."""

    @property
    def port(self) -> int:
        """The port it listens on; known after the start."""
        return self._listener.port if self._listener is not None else self._port

    async def start(self) -> None:
        """Listen. CannotListen if the address is taken."""
        await super().start()
        self._listener = await self._network.listen(lambda: HttpPeer(self, self._clock), self._host, self._port)
        self.every("sweep", _SWEEP_SECONDS, self._sweep)

    async def stop(self) -> None:
        """Close the listener and all connections."""
        if self._listener is not None:
            await self._listener.close()
        for peer in list(self.peers):
            peer.close()
        await super().stop()

    # -- PeerOwner -----------------------------------------------------------------------------------------------------

    def opened(self, peer: HttpPeer) -> None:
        """See PeerOwner. When there are too many, the peer that was silent for longest makes room."""
        if len(self.peers) >= _PEERS_MAX:
            idle = [each for each in self.peers if not each.is_answered]
            (min(idle, key=lambda each: each.deadline) if idle else peer).close()
            if not idle:
                return
        self.peers[peer] = None

    def closed(self, peer: HttpPeer) -> None:
        """See PeerOwner."""
        self.peers.pop(peer, None)

    def asked(self, peer: HttpPeer, method: str, target: str) -> None:
        """See PeerOwner."""
        self.spawn("answer", self._answer(peer, method, target.partition("?")[0]))

    async def _answer(self, peer: HttpPeer, method: str, path: str) -> None:
        page = self.pages.get(path)
        try:
            if page is None:
                await peer.say(404, f"there are: {' '.join(self.pages)}")
            elif method not in ("GET", "HEAD"):
                await peer.say(405, f"this page takes {_METHODS}", allow=_METHODS)
            elif sum(each.is_answered for each in self.peers) > _ANSWERS_MAX:
                await peer.say(503, "too many answers are under way, ask again")
            else:
                await peer.answer(page())
        except BaseException:
            with contextlib.suppress(Exception):
                peer.close()  # the peer must not take half an answer for a whole one
            raise

    def _sweep(self) -> None:
        now = self._clock.monotonic()
        for peer in [peer for peer in self.peers if peer.deadline < now]:
            peer.close()
