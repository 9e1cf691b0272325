"""GrpcServer: listens, accepts, drains.

Owns        the set of open links, the limits on their number, the tasks of calls that wait, the order of a stop.
Must not know   what the methods do (services/), bytes (http2/).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from rocketlake.base.callbacks import call as call_safely
from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.net.network import Listener, Network
from rocketlake.net.shares import Shares
from rocketlake.net.unfinished import UnfinishedBytes
from rocketlake.proxy.http2.call import Call, Method, Methods
from rocketlake.proxy.http2.framing import CallFailed, GrpcStatus
from rocketlake.proxy.http2.library import check_library
from rocketlake.proxy.http2.limits import GrpcLimits
from rocketlake.proxy.http2.link import Flushes, GrpcEndpoint, GrpcLink, Traffic

__all__ = ["GrpcServer"]

_log: Final = get_logger(__name__)

_SWEEP_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.01
_CLOSE_SECONDS: Final = 0.5


class GrpcServer(Service):
    """Serves methods on one port. Start once, stop once."""

    def __init__(
        self,
        *,
        host: str,
        port: int,
        clock: Clock,
        network: Network,
        limits: GrpcLimits | None = None,
    ) -> None:
        super().__init__("grpc", clock)
        self.host = host
        self.methods: Methods = {}
        """By path; added to before the start."""
        self.links: dict[GrpcLink, None] = {}
        self.accepted = 0
        """Connections that came and were taken."""
        self.traffic = Traffic()
        self.draining = False
        self.limits = limits or GrpcLimits()
        self.flushes = Flushes()
        self._port = port
        self._network = network
        self._listener: Listener | None = None
        self._hosts = Shares(self.limits.connections, self.limits.connections_of_host)
        self._endpoint = GrpcEndpoint(
            self.methods,
            self.limits,
            self._clock,
            RareWarnings(_log, clock=self._clock),
            UnfinishedBytes(self.limits.all_bytes),
            self.traffic,
            self.flushes,
        )

    @property
    def port(self) -> int:
        """The port it listens on; before the start that of the settings."""
        return self._listener.port if self._listener is not None else self._port

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"

    def add(self, path: str, serve: Callable[[Call, bytes], object], *, takes_stream: bool = False) -> None:
        """Serve calls of a method at once; see Method."""
        self.methods[path.encode()] = Method(serve, takes_stream)

    def add_waiting(self, path: str, serve: Callable[[Call, bytes], Awaitable[None]]) -> None:
        """Serve each call of a method in a task, which is cancelled when nobody waits for the answer any more."""

        def begin(call: Call, message: bytes) -> None:
            task = self.spawn(path, self._wait(call, serve(call, message)))
            call.on_over.append(lambda _: task.cancel())

        self.add(path, begin)

    async def _wait(self, call: Call, serving: Awaitable[None]) -> None:
        try:
            await serving
        except CallFailed as error:
            call.fail(error)
        except Exception:
            _log.exception("a call of %s failed", call.link.address)
            call.end(GrpcStatus.INTERNAL, "the server failed, see its log")

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen. Raises CannotListen when it cannot, UsageError without the HTTP/2 library."""
        check_library()
        await super().start()
        self._listener = await self._network.listen(lambda: GrpcLink(self, self._endpoint), self.host, self._port)
        self.every("sweep", _SWEEP_SECONDS, self.sweep)

    async def stop(self) -> None:
        """Send clients elsewhere, let open calls finish, close every link."""
        self.draining = True
        if self._listener is not None:
            await self._listener.close()
        for final in (False, True):  # calls on their way meanwhile are served, too
            for link in list(self.links):
                link.go_away(final=final)
                link.drain()
            await self._until(lambda: not any(link.calls for link in self.links), self.limits.drain_seconds)
        for link in list(self.links):
            link.close()
        await self._until(lambda: not self.links, _CLOSE_SECONDS)
        for link in list(self.links):
            link.abort("stuck", "the server stops and the peer does not read")
        await self._until(lambda: not self.links, _CLOSE_SECONDS)
        await super().stop()

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait; a server stops once in its life, an event would cost something with every call."""
        deadline = self._clock.monotonic() + seconds
        while not condition() and self._clock.monotonic() < deadline:
            await self._clock.sleep(_LOOK_SECONDS)

    def sweep(self) -> None:
        """Look at all links."""
        now = self._clock.monotonic()
        for link in list(self.links):
            call_safely(link.sweep, now)

    # -- LinkOwner -----------------------------------------------------------------------------------------------------

    def opened(self, link: GrpcLink) -> str:
        """See LinkOwner."""
        host, hosts = link.remote[0], self._hosts
        if not hosts.has_room(host):
            if hosts.is_full:
                return f"{hosts.total} connections are open, no more are taken"
            return f"{hosts.of(host)} connections of {host} are open, no more of it are taken (connectionsOfHostMax)"
        hosts.take(host)
        self.accepted += 1
        self.links[link] = None
        return ""

    def lost(self, link: GrpcLink) -> None:
        """See LinkOwner."""
        if link in self.links:
            del self.links[link]
            self._hosts.give(link.remote[0])
