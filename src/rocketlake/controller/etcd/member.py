"""Member: one address of etcd, its connections, and whether its version is used.

Owns        the idle connections, the look at the version of each new one.
Must not know   the other members, what requests mean.
"""

from __future__ import annotations

import asyncio
import ssl

from rocketlake.base.errors import LinkError
from rocketlake.controller.etcd.versions import refused_version
from rocketlake.controller.etcd.wire import Version, read_answer
from rocketlake.net.http.link import HttpLink
from rocketlake.net.network import Network
from rocketlake.net.tls.network import connect_encrypted

__all__ = ["Member"]

_IDLE_MAX = 4


class Member:
    """One address. A new connection is used only after the member has said its version."""

    def __init__(
        self, host: str, port: int, network: Network, context: ssl.SSLContext | None, *, unsafe_versions: bool
    ) -> None:
        """`context` encrypts the connections; None: they are plain."""
        self.host = host
        self.port = port
        self.name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._network = network
        self._context = context
        self._unsafe_versions = unsafe_versions
        self._idle: list[HttpLink] = []

    async def take(self) -> HttpLink:
        """An idle connection, or a new one. Raises LinkError, ProtocolError."""
        while self._idle:
            link = self._idle.pop()
            if link.is_usable:
                return link
        made = await self._open()
        assert isinstance(made, HttpLink)
        try:
            await self._look_at(made)
        except BaseException:
            made.close()
            raise
        return made

    async def _open(self) -> asyncio.Protocol:
        if self._context is None:
            return await self._network.connect(lambda: HttpLink(self.name), self.host, self.port)
        return await connect_encrypted(
            self._network, lambda: HttpLink(self.name), self.host, self.port, self._context, self.host
        )

    def give_back(self, link: HttpLink) -> None:
        """Keep a connection for the next request, if it is good for one."""
        if link.is_usable and len(self._idle) < _IDLE_MAX:
            self._idle.append(link)
        else:
            link.close()

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    async def _look_at(self, link: HttpLink) -> None:
        answer = await link.ask("/version", None, {})
        if answer.status != 200:
            raise LinkError(f"it does not say its version: status {answer.status}, {answer.body[:200]!r}")
        refused = refused_version(read_answer(answer.body, Version).etcdserver, unsafe_versions=self._unsafe_versions)
        if refused:
            raise LinkError(refused)
