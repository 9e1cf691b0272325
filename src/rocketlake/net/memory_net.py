"""MemoryNet: links between servers and clients of one process, without sockets, with faults on demand.

Owns        hosts by name, delay, cuts, partitions and crashes, all from one seed.
Must not know   links, commands: it carries the bytes of any asyncio protocol, as TcpNetwork does.

A stream never loses single bytes (TCP does not): "loss" cuts the connection; a partition holds all chunks back and
refuses new connections. Delays go by the clock that is given.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.errors import LinkError
from rocketlake.base.service import Service
from rocketlake.net.network import CannotListen, ConnectionIsRefused, Listener

MakeLink = Callable[[], asyncio.Protocol]


class MemoryNet(Service):
    """All hosts of a simulated network. `delay_ms` is (least, most) per chunk; `cut_chance` per chunk."""

    def __init__(
        self,
        seed: int = 0,
        *,
        clock: Clock | None = None,
        delay_ms: tuple[float, float] = (0.0, 0.0),
        cut_chance: float = 0.0,
    ) -> None:
        self.clock = clock or SystemClock()
        super().__init__("memory-net", self.clock)
        self.random = random.Random(seed)
        self.delay_ms = delay_ms
        self.cut_chance = cut_chance
        self.listeners: dict[tuple[str, int], MemoryListener] = {}
        self._cut: set[tuple[str, str]] = set()
        self._held: list[_Pipe] = []
        self._widows: dict[str, list[MemoryTransport]] = {}
        self._next_port = 40_000
        self.vanished: set[str] = set()
        """Hosts that answer nothing, not even that a port is closed."""

    def host(self, name: str) -> MemoryHost:
        """The network as the host `name` sees it: pass it to Server and NetClient as `network`.

        After MemoryHost.crash the next host of this name is the same machine, up again: it resets its old connections.
        """
        self.vanished.discard(name)
        for widow in self._widows.pop(name, ()):
            widow.lose(ConnectionResetError("the peer restarted"))
        return MemoryHost(self, name)

    def bereave(self, name: str, transport: MemoryTransport) -> None:
        """Remembers an end whose peer, on host `name`, fell silent."""
        self._widows.setdefault(name, []).append(transport)

    def partition(self, one: str, other: str) -> None:
        """Bytes between two hosts wait from now on; connecting fails."""
        self.cut_way(one, other)
        self.cut_way(other, one)

    def cut_way(self, source: str, target: str) -> None:
        """Bytes from one host to another wait from now on, those of the other direction do not; connecting fails."""
        self._cut.add((source, target))

    def heal(self) -> None:
        """Ends all cuts; the chunks that waited are delivered."""
        self._cut.clear()
        held, self._held = self._held, []
        for pipe in held:
            pipe.wake()

    def is_cut(self, source: str, target: str) -> bool:
        """True while bytes from one host do not reach the other one."""
        return (source, target) in self._cut

    def are_apart(self, one: str, other: str) -> bool:
        """True while they cannot open a connection: both have to hear each other for that."""
        return self.is_cut(one, other) or self.is_cut(other, one)

    def hold(self, pipe: _Pipe) -> None:
        """Remembers a pipe that waits for `heal`."""
        self._held.append(pipe)

    def free_port(self) -> int:
        """A port that is not in use."""
        self._next_port += 1
        return self._next_port

    def delay_seconds(self) -> float:
        """The delay of the next chunk."""
        least, most = self.delay_ms
        return self.random.uniform(least, most) / 1000 if most > 0 else 0.0


class MemoryListener:
    """A port of a simulated host."""

    def __init__(self, net: MemoryNet, owner: MemoryHost, host: str, port: int, make_link: MakeLink) -> None:
        self.port = port
        self.owner = owner
        self.make_link = make_link
        self._net = net
        self._host = host

    async def close(self) -> None:
        """Accepts no more."""
        self.shut()

    def shut(self) -> None:
        """Frees the port, unless the host that came up again has it."""
        if self._net.listeners.get((self._host, self.port)) is self:
            del self._net.listeners[self._host, self.port]


class MemoryHost:
    """Implements net.network.Network for one host of a MemoryNet."""

    def __init__(self, net: MemoryNet, name: str) -> None:
        self._net = net
        self.name = name
        self.transports: dict[MemoryTransport, None] = {}
        self._crashed = False

    def crash(self, *, silent: bool = False) -> None:
        """End all connections. Chunks on their way from here are lost, and this object connects to no host any more.

        The peers of a killed process learn it at once; a machine without power is `silent` until it is up again.
        """
        self._crashed = True
        for listener in [each for each in self._net.listeners.values() if each.owner is self]:
            listener.shut()
        if silent:
            self._net.vanished.add(self.name)
        for transport in tuple(self.transports):
            transport.vanish(silent=silent)

    async def listen(self, make_link: MakeLink, host: str, port: int) -> Listener:
        """See Network.listen; `host` must be this host's name."""
        port = port or self._net.free_port()
        if self._crashed or (host, port) in self._net.listeners:
            raise CannotListen(host, port, OSError(errno.EADDRINUSE, "in use"))
        listener = self._net.listeners[host, port] = MemoryListener(self._net, self, host, port, make_link)
        return listener

    async def connect(self, make_link: MakeLink, host: str, port: int) -> asyncio.Protocol:
        """See Network.connect."""
        await self._net.clock.sleep(self._net.delay_seconds())
        listener = self._net.listeners.get((host, port))
        if self._crashed or self._net.are_apart(self.name, host) or host in self._net.vanished:
            raise LinkError(f"cannot connect to {host}:{port}")
        if listener is None:
            raise ConnectionIsRefused(f"cannot connect to {host}:{port}: nothing listens there")
        client, server = make_link(), listener.make_link()
        here = (self.name, self._net.free_port())
        near = MemoryTransport(self._net, self, client, here=here, there=(host, port))
        far = MemoryTransport(self._net, listener.owner, server, here=(host, port), there=here)
        near.join(far)
        far.join(near)
        server.connection_made(far)
        client.connection_made(near)
        return client


class _Pipe:
    """One direction of a connection: chunks on their way, delivered in order by one task while there are any."""

    def __init__(self, net: MemoryNet, source: MemoryTransport, target: MemoryTransport) -> None:
        self._net = net
        self._source = source
        self._target = target
        self._chunks: deque[tuple[float, bytes | None]] = deque()
        self._pump: asyncio.Task[None] | None = None
        self.size = 0

    def put(self, data: bytes | None) -> None:
        """Sends a chunk, or None for the end of the stream."""
        self._chunks.append((self._net.clock.monotonic() + self._net.delay_seconds(), data))
        self.size += len(data or b"")
        self.wake()

    def drop(self) -> None:
        """Lose the chunks on their way."""
        self._chunks.clear()
        self.size = 0

    def wake(self) -> None:
        """Starts to deliver, unless the task runs."""
        if self._pump is None or self._pump.done():
            self._pump = self._net.spawn("pipe", self._run())

    async def _run(self) -> None:
        await asyncio.sleep(0)
        while self._chunks and self._target.reading:
            due, data = self._chunks[0]
            wait = due - self._net.clock.monotonic()
            if wait > 0:
                await self._net.clock.sleep(wait)
                continue
            if self._net.is_cut(self._source.host, self._target.host):
                self._net.hold(self)
                return
            self._chunks.popleft()
            self._deliver(data)

    def _deliver(self, data: bytes | None) -> None:
        if data is None:
            self._target.lose(None)
            return
        self.size -= len(data)
        if self._net.cut_chance and self._net.random.random() < self._net.cut_chance:
            self._source.abort()
            return
        self._target.receive(data)
        self._source.drained(self.size)


class MemoryTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self,
        net: MemoryNet,
        owner: MemoryHost,
        protocol: asyncio.Protocol,
        *,
        here: tuple[str, int],
        there: tuple[str, int],
    ) -> None:
        super().__init__({"peername": there, "sockname": here})
        self.host = here[0]
        self._owner = owner
        owner.transports[self] = None
        self.reading = True
        self._net = net
        self._protocol = protocol
        self._closing = False
        self._lost = False
        self._paused = False
        self._high = 64 * 1024
        self._low = 16 * 1024

    def join(self, peer: MemoryTransport) -> None:
        """Connects this end to the other one."""
        self._peer = peer
        self._out = _Pipe(self._net, self, peer)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """See asyncio.BaseTransport."""
        self._protocol = cast(asyncio.Protocol, protocol)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See asyncio.WriteTransport."""
        if self._closing or not data:
            return
        self._out.put(bytes(data))
        if self._out.size > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        """See asyncio.WriteTransport."""
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See asyncio.WriteTransport."""
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Bytes that are not delivered yet."""
        return self._out.size

    def pause_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self.reading = False

    def resume_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self.reading = True
        self._peer.deliver_soon()

    def is_closing(self) -> bool:
        """True once closed or lost."""
        return self._closing

    def close(self) -> None:
        """Delivers the written chunks, then ends both sides."""
        if not self._closing:
            self._closing = True
            self._out.put(None)
            asyncio.get_running_loop().call_soon(self.lose, None)

    def abort(self) -> None:
        """Ends both sides at once."""
        self._closing = True
        asyncio.get_running_loop().call_soon(self.lose, None)
        self._tell_end(ConnectionResetError("connection cut"))

    def _tell_end(self, problem: Exception) -> None:
        """The other end learns that the connection is over, behind a cut when that has healed."""
        if self._net.is_cut(self.host, self._peer.host):
            self._out.drop()
            self._out.put(None)
        else:
            asyncio.get_running_loop().call_soon(self._peer.lose, problem)

    def vanish(self, *, silent: bool) -> None:
        """The host of this end crashed."""
        self._closing = True
        self._out.drop()
        asyncio.get_running_loop().call_soon(self.lose, ConnectionResetError("this host crashed"))
        if silent:
            self._net.bereave(self.host, self._peer)
        else:
            self._tell_end(ConnectionResetError("the peer was killed"))

    def deliver_soon(self) -> None:
        """The other end reads again."""
        self._out.wake()

    def receive(self, data: bytes) -> None:
        """Bytes came."""
        if not self._lost:
            self._protocol.data_received(data)

    def drained(self, size: int) -> None:
        """`size` bytes of ours are still on their way."""
        if self._paused and size <= self._low and not self._lost:
            self._paused = False
            self._protocol.resume_writing()

    def lose(self, problem: Exception | None) -> None:
        """The connection is over."""
        if not self._lost:
            self._lost = True
            self._closing = True
            self._owner.transports.pop(self, None)
            self._protocol.connection_lost(problem)
