"""Network: the seam between links and the world.

Owns        how a listener and a connection are made: over TCP here, in memory in memory_net.py.
Must not know   links, commands.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Protocol

from rocketlake.base.errors import LinkError, UsageError


class Listener(Protocol):
    """An open listener."""

    port: int

    async def close(self) -> None:
        """Accepts no more; connections that are open stay open."""


class Network(Protocol):
    """Makes listeners and connections for asyncio protocols."""

    async def listen(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> Listener:
        """Accepts connections; port 0 = any free one. Raises UsageError naming the address when it cannot."""

    async def connect(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Protocol:
        """Opens one connection. Raises LinkError."""


class TcpListener:
    """A listening TCP socket."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self.port: int = server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stops accepting. (asyncio's wait_closed would wait for the connections too.)"""
        self._server.close()
        await asyncio.sleep(0)


class TcpNetwork:
    """TCP with no delay and a backlog as Java's."""

    async def listen(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> Listener:
        """See Network.listen."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(make_link, host, port, backlog=1024, reuse_address=True)
        except OSError as problem:
            raise UsageError(
                f"cannot listen on {host}:{port}: {problem.strerror or problem}",
                hint="is another server running there? change listenPort, or stop it",
            ) from None
        return TcpListener(server)

    async def connect(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Protocol:
        """See Network.connect."""
        loop = asyncio.get_running_loop()
        try:
            transport, link = await loop.create_connection(make_link, host, port)
        except OSError as problem:
            raise LinkError(f"cannot connect to {host}:{port}: {problem.strerror or problem}") from None
        connection = transport.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):  # the peer may have closed already
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link
