"""InsideNetwork: connections to servers of this process without sockets, and all others over the network below.

Owns        the pair of ends that carries bytes from one link to another, in the order in which they were written.
Must not know   frames, what links do with bytes.

What is written in one turn of the loop arrives in the next one, in one piece: requests that were asked together reach
the server as one chunk, which its kernels serve as runs.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from typing import Final

from rocketlake.base.errors import LinkError
from rocketlake.net.network import ConnectionIsRefused, Listener, Network, PromptTransport

__all__ = ["InsideNetwork"]

_HIGH_BYTES: Final = 64 << 10
_ports: Final = itertools.count(1)


class InsideNetwork:
    """Implements net.network.Network."""

    def __init__(self, below: Network) -> None:
        self._below = below
        self._servers: dict[tuple[str, int], Callable[[], asyncio.Protocol | None]] = {}

    def add(self, host: str, port: int, make_link: Callable[[], asyncio.Protocol | None]) -> None:
        """Reach the server at this address inside; `make_link`: its end of a new connection, None while it stops."""
        self._servers[host, port] = make_link

    async def listen(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> Listener:
        """See Network.listen."""
        return await self._below.listen(make_link, host, port)

    async def connect(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Protocol:
        """See Network.connect."""
        make_far = self._servers.get((host, port))
        if make_far is None:
            return await self._below.connect(make_link, host, port)
        far_link = make_far()
        if far_link is None:
            raise ConnectionIsRefused(f"cannot connect to {host}:{port}: the server stops")
        here = ("127.0.0.1", next(_ports) & 0xFFFF)
        link = make_link()
        near, far = _End(link, here, (host, port)), _End(far_link, (host, port), here)
        near.join(far)
        far_link.connection_made(far)
        link.connection_made(near)
        if far.is_closing():
            raise LinkError(f"{host}:{port} takes no more connections")
        return link


class _End(PromptTransport):
    """One end: what is written here is received by the link of the other end."""

    def __init__(self, link: asyncio.Protocol, here: tuple[str, int], there: tuple[str, int]) -> None:
        super().__init__({"peername": there, "sockname": here})
        self._link = link
        self._other: _End
        self._buffers: list[bytes | bytearray | memoryview] = []
        """Written here, not received there."""
        self._size = 0
        self._high = _HIGH_BYTES
        self._reads = True
        self._is_planned = False
        self._is_paused = False
        self._is_closing = False
        self._is_lost = False

    def join(self, other: _End) -> None:
        """Connect two new ends with each other."""
        self._other, other._other = other, self

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See asyncio.WriteTransport."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """See asyncio.WriteTransport."""
        if self._is_closing:
            return
        for data in list_of_data:
            self._buffers.append(data)
            self._size += len(data)
        self._plan()
        if self._size > self._high and not self._is_paused:
            self._is_paused = True
            self._link.pause_writing()

    def hold(self) -> None:
        """See PromptTransport."""
        self._is_planned = self._other._is_planned = True

    def deliver(self) -> None:
        """See PromptTransport."""
        for end in (self, self._other):
            if not end._is_lost:
                end._deliver()

    def _plan(self) -> None:
        if not self._is_planned and self._buffers and self._other._reads:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._is_planned = False
        if not self._buffers or not self._other._reads:
            return
        buffers, self._buffers, self._size = self._buffers, [], 0
        if not self._other._is_lost:
            self._other._link.data_received(b"".join(buffers))
        if self._is_paused and not self._is_lost:
            self._is_paused = False
            self._link.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See asyncio.WriteTransport."""
        self._high = _HIGH_BYTES if high is None else high

    def get_write_buffer_size(self) -> int:
        """See asyncio.WriteTransport."""
        return self._size

    def pause_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self._reads = False

    def resume_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self._reads = True
        self._other._plan()

    def is_closing(self) -> bool:
        """See asyncio.BaseTransport."""
        return self._is_closing

    def close(self) -> None:
        """See asyncio.BaseTransport: what is written arrives before."""
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._end)

    def abort(self) -> None:
        """See asyncio.WriteTransport."""
        self._buffers.clear()
        self.close()

    def _end(self) -> None:
        if self._other._reads:
            self._deliver()
        for end in (self, self._other):
            end._lose()

    def _lose(self) -> None:
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self._buffers.clear()
            self._link.connection_lost(None)
