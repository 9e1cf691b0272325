"""LinkPool: one link per address, opened when first needed.

Owns        the open links, the attempts to open one, the pause before a failed address is tried again.
Must not know   requests (client.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, UsageError
from rocketlake.base.recent import Recent
from rocketlake.base.service import Service
from rocketlake.net.client_link import ClientLink
from rocketlake.net.limits import NetLimits
from rocketlake.net.network import Network
from rocketlake.net.sweeper import Sweeper

_BACK_OFF_FIRST: Final = 0.05
_BACK_OFF_MAX: Final = 0.5
"""A server that is back is used again so soon: a request of three seconds must not miss it."""
_FAILURE_SECONDS: Final = 60.0
"""A failure of longer ago is forgotten, and the pause behind the next one is the first again."""
_CLOSE_SECONDS: Final = 0.5
"""How long a peer may take to read our last bytes."""
_HELD_UP_SECONDS: Final = 0.05
"""A timer that comes later than this says that the loop was held up: by a blocking handler, a disk, a busy machine."""
_TURNS_SECONDS: Final = 1.0
"""How long at most a connection may still take then. It was there perhaps, and needs some turns of the loop."""


@dataclass(slots=True)
class _Failure:
    """A failed attempt, and the monotonic time before which there is no other one."""

    error: Exception
    until: float
    pause: float


class LinkPool(Service):
    """Links by `host:port`. Concurrent askers of one address share one attempt to connect."""

    def __init__(
        self,
        make_link: Callable[[], ClientLink],
        network: Network,
        limits: NetLimits,
        clock: Clock,
        sweeper: Sweeper,
    ) -> None:
        super().__init__("link-pool", clock)
        self._make_link = make_link
        self._network = network
        self._limits = limits
        self._sweeper = sweeper
        self._links: dict[str, ClientLink] = {}
        self._opening: dict[str, asyncio.Task[ClientLink | Exception]] = {}
        self._failures: Recent[_Failure] = Recent(clock, _FAILURE_SECONDS)
        self._open: dict[ClientLink, None] = {}
        self._closed = False
        self._last_lost: asyncio.Future[None] | None = None

    def ready(self, address: str) -> ClientLink | None:
        """The open link to this address, if there is one."""
        link = self._links.get(address)
        return link if link is not None and link.usable else None

    async def get(self, address: str, timeout_seconds: float) -> ClientLink:
        """An open link. Raises LinkError (also while the address is left alone after failures), UsageError."""
        link = self.ready(address)
        if link is not None:
            return link
        task = self._opening.get(address)
        if task is None:
            self._check_may_try(address)
            task = self.spawn(f"connect {address}", self._try_connect(address))
            self._opening[address] = task
            task.add_done_callback(lambda done: self._opened(address, done))
        if not await self._in_time(task, timeout_seconds):
            raise LinkError(f"no connection to {address} within {timeout_seconds:.3g} s")
        if task.cancelled():
            raise LinkError(f"the connection to {address} was given up before it was open")
        link_or_error = task.result()
        if isinstance(link_or_error, Exception):
            raise link_or_error
        return link_or_error

    def retire(self, link: ClientLink) -> None:
        """Hand out this link no more; it closes when its last answer has come."""
        for address, current in tuple(self._links.items()):
            if current is link:
                del self._links[address]
        link.retire()

    def lost(self, link: ClientLink) -> None:
        """A link ended (called by the link)."""
        self._open.pop(link, None)
        self._sweeper.discard(link)
        if not self._open and self._last_lost is not None and not self._last_lost.done():
            self._last_lost.set_result(None)
        for address, current in tuple(self._links.items()):
            if current is link:
                del self._links[address]

    def give_up(self, address: str, why: str) -> None:
        """Ends the link to an address, or the attempt to open one: its peer may read and answer nothing any more."""
        opening = self._opening.get(address)
        if opening is not None:
            opening.cancel()
        link = self._links.pop(address, None)
        if link is not None:
            link.abort("given up", why)

    async def stop(self) -> None:
        """Closes all links and waits until they are closed."""
        self._closed = True
        await super().stop()
        for link in tuple(self._open):
            link.close()
        if not await self._gone(_CLOSE_SECONDS):
            for link in tuple(self._open):
                link.abort("stuck", "the client closes and the peer does not read")
            await self._gone(_CLOSE_SECONDS)

    async def _gone(self, timeout_seconds: float) -> bool:
        """Waits until the last link is closed; False when the time is over."""
        if self._open:
            self._last_lost = asyncio.get_running_loop().create_future()
            await self._clock.wait(self._last_lost, timeout_seconds)
        return not self._open

    def _check_may_try(self, address: str) -> None:
        if self._closed:
            raise LinkError("the client is closed", hint="make a new one")
        failure = self._failures.get(address)
        if failure is not None and self._clock.monotonic() < failure.until:
            raise failure.error.with_traceback(None)  # raised for each asker: the traces would pile up

    async def _try_connect(self, address: str) -> ClientLink | Exception:
        """The error is returned, not raised: perhaps no caller waits for it any more."""
        try:
            return await self._connect(address)
        except Exception as error:
            return error

    async def _connect(self, address: str) -> ClientLink:
        host, port = split_address(address)
        connecting = self.spawn(f"open {address}", self._try_open(host, port))
        try:
            is_open = await self._in_time(connecting, self._limits.connect_seconds)
        except asyncio.CancelledError:
            connecting.cancel()
            raise
        if not is_open:
            connecting.cancel()
            raise LinkError(f"no connection to {address} within {self._limits.connect_seconds:g} s")
        link = connecting.result()
        if isinstance(link, Exception):
            raise link
        assert isinstance(link, ClientLink)
        return link

    async def _in_time(self, connecting: asyncio.Task[Any], seconds: float) -> bool:
        """True if it is done in `seconds`. The time for which this loop was held up is not the server's."""
        due = self._clock.monotonic() + seconds
        if await self._clock.wait(connecting, seconds):
            return True
        late = self._clock.monotonic() - due
        return late > _HELD_UP_SECONDS and await self._clock.wait(connecting, min(late, _TURNS_SECONDS))

    async def _try_open(self, host: str, port: int) -> asyncio.Protocol | Exception:
        try:
            return await self._network.connect(self._make_link, host, port)
        except Exception as error:
            return error

    def _opened(self, address: str, task: asyncio.Task[ClientLink | Exception]) -> None:
        del self._opening[address]
        if task.cancelled():
            return
        link = task.result()
        if not isinstance(link, Exception):
            self._failures.forget(address)
            if link.closed:
                return
            self._open[link] = None
            self._links[address] = link
            self._sweeper.add(link)
            return
        before = self._failures.get(address)
        pause = min(before.pause * 2, _BACK_OFF_MAX) if before is not None else _BACK_OFF_FIRST
        self._failures.put(address, _Failure(link, self._clock.monotonic() + pause, pause))


def split_address(address: str) -> tuple[str, int]:
    """`host:port` -> (host, port). Raises UsageError."""
    host, separator, port = address.strip().rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"address {address[:100]!r} is not host:port", hint="write it as 127.0.0.1:9876")
    return host.strip("[]"), int(port)
