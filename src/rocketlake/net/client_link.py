"""ClientLink: one connection that we opened.

Owns        the asking side: waiting for room to write, leaving a server that says GO_AWAY.
Must not know   addresses to choose from (link_pool.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from rocketlake.net.asked import InvokeTimeout, LinkLost, Waiter
from rocketlake.net.endpoint import Endpoint
from rocketlake.net.link import Link
from rocketlake.net.network import PromptTransport
from rocketlake.protocol.command import Command

_WOKEN_AT_ONCE: Final = 16


class ClientLink(Link):
    """One outgoing connection. The dispatcher serves the requests of the server (notifications, running info)."""

    stops_reading: ClassVar[bool] = False

    def __init__(
        self, endpoint: Endpoint, *, lost: Callable[[ClientLink], None], expects: Callable[[ClientLink], None]
    ) -> None:
        super().__init__(endpoint)
        self._lost = lost
        self._expects = expects
        self._writers: deque[asyncio.Future[None]] = deque()
        self._retiring = False

    @property
    def usable(self) -> bool:
        """False once the link is closed or closing, or the server said GO_AWAY."""
        return not self.closed and not self._output.closing and not self._retiring

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the transport is gone."""
        super().connection_lost(exc)
        self._wake_writers(len(self._writers))
        self._lost(self)

    def resume_writing(self) -> None:
        """asyncio: the server has caught up."""
        super().resume_writing()
        self._wake_writers(_WOKEN_AT_ONCE)

    async def wait_writable(self, timeout_seconds: float) -> None:
        """Waits until the server has caught up. Raises InvokeTimeout, or LinkLost when the link closes."""
        deadline = self._clock.monotonic() + timeout_seconds
        while self._output.paused and not self._output.closing:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._writers.append(waiter)
            try:
                in_time = await self._clock.wait(waiter, deadline - self._clock.monotonic())
            finally:
                if waiter.done():
                    self._wake_writers(1)
                waiter.cancel()
            if not in_time:
                raise InvokeTimeout(f"{self.address} does not read our requests")
        if self._output.closing:
            raise LinkLost(f"link to {self.address} is closed")

    def start(self, command: Command, timeout_ms: float) -> asyncio.Future[Command]:
        """Asks the server; see Link.start."""
        future = super().start(command, timeout_ms)
        self._expects(self)
        return future

    def start_run(self, waiters: Sequence[tuple[Waiter, float]], make: Callable[[int], bytes]) -> None:
        """Ask as many requests as there are waiters, in one piece; see Asked.expect.

        A server inside this process answers before the return what it answers at once.
        """
        frames = self.asked.expect(waiters, make)
        self._expects(self)
        transport = self._transport
        if not isinstance(transport, PromptTransport):
            self._output.write_now([frames])
            return
        transport.hold()
        try:
            self._output.write_now([frames])
        finally:
            transport.deliver()

    def retire(self) -> None:
        """The server goes away: no new requests here; closes when the last answer has come."""
        self._retiring = True
        self._close_when_idle()

    def sweep(self, now: float) -> None:
        """See Link.sweep."""
        super().sweep(now)
        if self._retiring:
            self._close_when_idle()

    def _close_when_idle(self) -> None:
        if not self.asked:
            self.close()

    def _wake_writers(self, count: int) -> None:
        """Wakes some writers. Each of them wakes the next one, until the server is behind again.

        Waking all of them for the room of a few would cost the square of their number.
        """
        while self._writers and count and not self._output.paused:
            writer = self._writers.popleft()
            if not writer.done():
                writer.set_result(None)
                count -= 1
