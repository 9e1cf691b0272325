"""Links between processes on this machine that can be cut, in one direction, too.

Each process has a loopback address of its own, by which the others know it. A door listens there and passes what comes
to the port where the process really listens. Who has opened a connection is found in /proc. In a direction that is cut
nothing arrives, not even the end of a connection: it waits in the sockets until the cut heals, as TCP would repeat it.
Other than on a network a new connection over a cut is accepted, and then silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.crash.socket_inode import Address, socket_inode


class Cuts:
    """The directions, from and to, in which nothing arrives."""

    def __init__(self) -> None:
        self._pairs: set[tuple[str, str]] = set()
        self._pipes: set[_Pipe] = set()

    def cut(self, sources: Iterable[str], targets: Iterable[str]) -> None:
        """Nothing that any of `sources` says reaches any of `targets`."""
        targets = tuple(targets)
        self._pairs |= {(source, target) for source in sources for target in targets}
        self._look()

    def heal(self) -> None:
        """What waits arrives now."""
        self._pairs.clear()
        self._look()

    def has(self, source: str, target: str) -> bool:
        return (source, target) in self._pairs

    def _look(self) -> None:
        for pipe in tuple(self._pipes):
            pipe.look()


class Door:
    """One port of one process, at its own address."""

    def __init__(self, cuts: Cuts, owner: str, at: Address, to: Address, machines: Mapping[str, Callable[[], int]]):
        """`machines`: the ids of the processes that may connect, by the addresses that they have."""
        self._cuts, self._owner, self._at, self._to, self._machines = cuts, owner, at, to, machines
        self._listener: socket.socket | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server(self._at, backlog=100)
            self._listener.setblocking(False)
            asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    def close(self) -> None:
        """New connections are refused; those that are there stay."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        """Not by asyncio's server: one that is closed while it accepts leaves a connection that nobody ends."""
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            connection, peer = listener.accept()
            connection.setblocking(False)
            task = asyncio.get_running_loop().create_task(self._connect(connection, peer))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _connect(self, connection: socket.socket, peer: Address) -> None:
        loop, side, other = asyncio.get_running_loop(), _Side(), _Side()
        source = self._opener(peer)
        if not source:  # it is gone already
            connection.close()
            return
        try:
            await loop.create_connection(lambda: other, *self._to, local_addr=(source, 0))
        except OSError:
            connection.close()
            return
        await loop.connect_accepted_socket(lambda: side, connection)
        _Pipe(self._cuts, source, self._owner, side, other)
        _Pipe(self._cuts, self._owner, source, other, side)

    def _opener(self, peer: Address) -> str:
        """The address of the process that has opened this connection; of this one too: its senders reach everybody."""
        inode = socket_inode(peer, self._at)
        if not inode:
            return ""
        machines = {**self._machines, "127.0.0.1": os.getpid}
        return next((name for name, pid in machines.items() if _has(pid(), inode)), "")


class _Side(asyncio.Protocol):
    """One end of a connection, as the door sees it."""

    def __init__(self) -> None:
        self.out: _Pipe | None = None
        self.into: _Pipe | None = None
        self.early = b""
        """What came before the other end was there."""
        self.has_ended = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        with contextlib.suppress(OSError):
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if self.out is None:
            self.early += data
        else:
            self.out.pass_on(data)

    def write(self, data: bytes) -> None:
        if not self.has_ended and not self.transport.is_closing():
            self.transport.write(data)

    def read(self, *, more: bool) -> None:
        if not self.has_ended and not self.transport.is_closing():
            (self.transport.resume_reading if more else self.transport.pause_reading)()

    def pause_writing(self) -> None:
        if self.into is not None:
            self.into.is_full = True
            self.into.look()

    def resume_writing(self) -> None:
        if self.into is not None:
            self.into.is_full = False
            self.into.look()

    def connection_lost(self, error: Exception | None) -> None:
        self.has_ended = True
        if self.out is not None:
            self.out.look()


class _Pipe:
    """One direction of a connection."""

    def __init__(self, cuts: Cuts, source: str, target: str, side: _Side, other: _Side) -> None:
        self._cuts, self._source, self._target, self._from, self._to = cuts, source, target, side, other
        self.is_full = False
        self._held = side.early
        side.out, other.into = self, self
        cuts._pipes.add(self)
        self.look()

    def pass_on(self, data: bytes) -> None:
        if self._cuts.has(self._source, self._target):
            self._held += data  # read before the cut was seen
        else:
            self._to.write(data)

    def look(self) -> None:
        """The cuts have changed, or one end has."""
        if self._cuts.has(self._source, self._target):
            self._from.read(more=False)
            return
        held, self._held = self._held, b""
        self._to.write(held)
        self._from.read(more=not self.is_full)
        if self._from.has_ended:
            self._to.transport.close()
            self._cuts._pipes.discard(self)


def _has(pid: int, inode: int) -> bool:
    """True if this process has the socket."""
    with contextlib.suppress(OSError):
        return any(_target(link) == f"socket:[{inode}]" for link in Path(f"/proc/{pid}/fd").iterdir())
    return False


def _target(link: Path) -> str:
    with contextlib.suppress(OSError):
        return str(link.readlink())
    return ""
