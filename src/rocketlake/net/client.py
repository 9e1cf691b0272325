"""NetClient: asks any address, and serves the requests that servers send back.

Owns        one call per request, GO_AWAY handled once, the deadline of the whole call; the order of the requests to
            one address, which is that of the calls, also of those that wait for a link.
Must not know   which broker or name server is worth asking (rocketlake.client).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.net.asked import InvokeTimeout, Waiter
from rocketlake.net.client_link import ClientLink
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.endpoint import Endpoint
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.gate.signing import Sign
from rocketlake.net.limits import NetLimits
from rocketlake.net.link_pool import LinkPool, split_address
from rocketlake.net.network import Network, Open, TcpNetwork
from rocketlake.net.request import Handler
from rocketlake.net.sweeper import Sweeper
from rocketlake.net.turns import Turns
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import Codec
from rocketlake.protocol.limits import FRAME_BYTES_MAX, WireLimits
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["ASKED_AT_ONCE", "InvokeTimeout", "NetClient", "Way", "some_at_once"]

log: Final = get_logger(__name__)

_A = TypeVar("_A")
_T = TypeVar("_T")


_LIMITS: Final = NetLimits(wire=WireLimits(header_bytes=FRAME_BYTES_MAX))
"""A header may fill a frame: the answer to a batch has the id of each of its messages there."""
ASKED_AT_ONCE: Final = 64
"""Requests about as many things, of one `some_at_once`, that are under way."""


async def some_at_once(ask: Callable[[_A], Awaitable[_T]], items: Iterable[_A]) -> list[_T]:
    """What `ask` says of each of these, in their order: topics, queues, messages, of which there may be any number.

    All at once they would wait for each other until their time is over. The first error ends it.
    """
    found: list[_T] = []
    left = iter(items)
    while some := list(islice(left, ASKED_AT_ONCE)):
        found += await asyncio.gather(*map(ask, some))
    return found


@dataclass(frozen=True, slots=True)
class Way:
    """How a thread that waits for its answers itself reaches an address: as the client does, encrypted and signed."""

    address: str
    open: Open
    sign: Sign | None


class NetClient(Service):
    """One link per address, opened when needed, opened again after it broke. Use within one event loop."""

    def __init__(
        self,
        limits: NetLimits | None = None,
        clock: Clock | None = None,
        handlers: Mapping[int, Handler] | None = None,
        *,
        network: Network | None = None,
        codec: Codec = Codec.JSON,
        sign: Sign | None = None,
        way: Callable[[str, int, float], Open] | None = None,
    ) -> None:
        """`sign`: puts access key and signature on each request. `way`: see `way`; None: there is no such way."""
        super().__init__("net-client", clock)
        limits = self._limits = limits or _LIMITS
        self.dispatcher = Dispatcher(Row(code, handler, ANYBODY) for code, handler in (handlers or {}).items())
        warnings, turns = RareWarnings(log, clock=self._clock), Turns(self._clock, limits.turn_seconds)
        self._endpoint = Endpoint(self.dispatcher, limits, self._clock, codec, warnings, turns)
        self._sweeper = Sweeper(self._clock)
        self._pool = LinkPool(self._make_link, network or TcpNetwork(), limits, self._clock, self._sweeper)
        self._sign = sign
        self._way = way
        self._lines: dict[str, dict[asyncio.Future[None], None]] = {}
        """By address: requests that wait for its link, in the order in which they came."""
        self.adopt(self._sweeper, self._pool)

    def serve(self, handlers: Mapping[int, Handler]) -> None:
        """Serve these requests of servers, by code. Before the first connection."""
        self.dispatcher.add(Row(code, handler, ANYBODY) for code, handler in handlers.items())

    async def invoke(self, address: str, command: Command, timeout_ms: float = 3000) -> Command:
        """Asks and waits for the answer, of any code. Raises InvokeTimeout, LinkError, UsageError (address).

        After the answer GO_AWAY the same address is asked once more, on a new connection.
        """
        deadline = self._clock.monotonic() + timeout_ms / 1000
        if self._sign is not None:
            self._sign(command)
        link = self._pool.ready(address)
        if link is None or not link.writable or address in self._lines:
            link = await self._writable(address, deadline)
            timeout_ms = self._left_ms(deadline)
        answer = await link.invoke(command, timeout_ms)
        if answer.code != ResponseCode.GO_AWAY:
            return answer
        self._pool.retire(link)
        link = await self._writable(address, deadline)
        answer = await link.invoke(command, self._left_ms(deadline))
        if answer.code == ResponseCode.GO_AWAY:
            self._pool.retire(link)
            raise LinkError(f"{address} is shutting down", hint="ask another address, or this one later")
        return answer

    def start_run(self, address: str, waiters: Sequence[tuple[Waiter, float]], make: Callable[[int], bytes]) -> bool:
        """Ask many requests at once, without a task; see Asked.expect. Answers have any code, GO_AWAY too.

        False: the link is not ready, or others wait for it: use `invoke`. `make` signs its requests (`sign`).
        """
        link = self._pool.ready(address)
        if link is None or not link.writable or address in self._lines:
            return False
        link.start_run(waiters, make)
        return True

    @property
    def sign(self) -> Sign | None:
        """Signs a request; None while requests need no signature."""
        return self._sign if self._sign is not None and self._sign.is_needed else None

    async def invoke_oneway(self, address: str, command: Command, timeout_ms: float = 3000) -> None:
        """Writes a one-way request. Raises LinkError without a connection."""
        if self._sign is not None:
            self._sign(command)
        link = await self._writable(address, self._clock.monotonic() + timeout_ms / 1000)
        link.send(command)

    def way(self, address: str) -> Way | None:
        """For a thread that opens a connection of its own; None in a simulation. Raises UsageError (address)."""
        if self._way is None:
            return None
        return Way(address, self._way(*split_address(address), self._limits.connect_seconds), self._sign)

    def link(self, address: str) -> object:
        """The open link to an address, to tell it from a later one; None without one."""
        return self._pool.ready(address)

    def give_up(self, address: str, why: str) -> None:
        """Ends the connection to an address at once; requests that wait there get LinkError."""
        self._pool.give_up(address, why)

    async def close(self) -> None:
        """The same as `stop`."""
        await self.stop()

    async def stop(self) -> None:
        """Closes every connection; waiting requests get LinkError."""
        await self._pool.stop()
        await self._sweeper.stop()
        await super().stop()

    async def _writable(self, address: str, deadline: float) -> ClientLink:
        """The link to write to, in the order of the calls: a later one does not go before those that wait."""
        link = self._pool.ready(address)
        if link is not None and link.writable and address not in self._lines:
            return link
        line = self._lines.setdefault(address, {})
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line[place] = None
        try:
            link = await self._caught_up(address, deadline)
            if next(iter(line)) is not place:
                if not await self._clock.wait(place, deadline - self._clock.monotonic()):
                    raise LinkError(
                        f"this request waited behind others for {address}, which reads slowly",
                        where=address,
                        hint="raise the timeout of the call, or look at the load of that server",
                    )
                link = await self._caught_up(address, deadline)  # those before it have written meanwhile
            return link
        finally:
            self._leave(address, line, place)

    async def _caught_up(self, address: str, deadline: float) -> ClientLink:
        link = await self._pool.get(address, deadline - self._clock.monotonic())
        if not link.writable:
            await link.wait_writable(deadline - self._clock.monotonic())
        return link

    def _leave(self, address: str, line: dict[asyncio.Future[None], None], place: asyncio.Future[None]) -> None:
        del line[place]
        if not line:
            del self._lines[address]
        elif not (first := next(iter(line))).done():
            first.set_result(None)

    def _left_ms(self, deadline: float) -> float:
        return max(1.0, (deadline - self._clock.monotonic()) * 1000)

    def _make_link(self) -> ClientLink:
        return ClientLink(self._endpoint, lost=self._pool.lost, expects=self._sweeper.expect)
