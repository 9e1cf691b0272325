"""Network: the seam between links and the world.

Owns        the making of listeners and connections: over TCP here, in memory in memory_net.py; encrypted on
            top of either: net/tls/network.py.
Must not know   links, commands.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable
from typing import Protocol

from rocketlake.base.errors import LinkError


class PromptTransport(asyncio.Transport):
    """A transport to a link of this process."""

    def hold(self) -> None:
        """What is written from here on waits for `deliver`, which the caller calls in this turn of the loop."""
        raise NotImplementedError

    def deliver(self) -> None:
        """Have what is written received now, and here what the other end answers to it at once."""
        raise NotImplementedError


class CannotListen(LinkError):
    """No listener on this address. The cure depends on the reason, and names the settings of the caller."""

    def __init__(self, host: str, port: int, problem: OSError) -> None:
        self.host = host
        self.port = port
        self.number = 0 if isinstance(problem, socket.gaierror) else problem.errno or 0
        reason = os.strerror(self.number) if self.number else problem.strerror or str(problem)
        super().__init__(f"cannot listen on {host}:{port}: {reason}")
        self.name_settings(port="listenPort", host="bindAddress")

    def name_settings(self, *, port: str, host: str) -> None:
        """Name the settings of port and address in the cure as the user knows them."""
        if self.number == errno.EADDRINUSE:
            self.hint = f"stop the server that listens there, or give another port with {port}"
        elif self.number in (errno.EACCES, errno.EPERM):
            self.hint = f"give a port above 1023 with {port}: the lower ones need privileges"
        else:
            self.hint = f"give an address of this machine with {host}: 127.0.0.1, 0.0.0.0, or one that `ip addr` shows"


class ConnectionIsRefused(LinkError):
    """The host answers that nothing listens on this port."""


class Listener(Protocol):
    """An open listener."""

    port: int

    async def close(self) -> None:
        """Accepts no more connections; open ones stay open."""


class Network(Protocol):
    """Makes listeners and connections for asyncio protocols."""

    async def listen(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> Listener:
        """Accepts connections; port 0 = any free one. Raises CannotListen."""

    async def connect(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Protocol:
        """Opens one connection. Raises LinkError, ConnectionIsRefused when nothing listens there."""


Open = Callable[[], socket.socket]
"""Opens a connection, for a thread that waits: not for an event loop. Raises LinkError."""


def open_tcp(host: str, port: int, seconds: float) -> socket.socket:
    """A plain connection within so many seconds, which its socket keeps as its timeout. See Open."""
    try:
        connection = socket.create_connection((host, port), seconds)
    except OSError as problem:
        raise LinkError(f"cannot connect to {host}:{port}: {problem.strerror or problem}") from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


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
            raise CannotListen(host, port, problem) from None
        return TcpListener(server)

    async def connect(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Protocol:
        """See Network.connect."""
        loop = asyncio.get_running_loop()
        try:
            transport, link = await loop.create_connection(make_link, host, port)
        except OSError as problem:
            kind = ConnectionIsRefused if isinstance(problem, ConnectionRefusedError) else LinkError
            raise kind(f"cannot connect to {host}:{port}: {problem.strerror or problem}") from None
        connection = transport.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):  # the peer may have closed already
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link
