"""Heartbeats of this broker to its controllers.

Owns        when one is sent and to whom; that one slow controller keeps back none of the others.
Must not know   what a heartbeat says (member.py), what a controller makes of it.

Each controller hears each broker: all of ours are active, and Apache's followers keep the table, too. Heartbeats come
from the event loop, so they say that the loop runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.namesrv import BrokerHeartbeatHeader
from rocketlake.protocol.request_code import RequestCode

__all__ = ["Heartbeats"]

_log = get_logger(__name__)
_CONNECT_MS = 1000


class Heartbeats(Service):
    """Sends them until it is stopped."""

    def __init__(
        self,
        net: NetClient,
        addresses: Callable[[], Sequence[str]],
        header: Callable[[], BrokerHeartbeatHeader],
        clock: Clock,
        interval_ms: int,
    ) -> None:
        """`header` says how this broker stands now."""
        super().__init__("heartbeats", clock)
        self.is_silent = False
        """True: none is sent (succession.py)."""
        self._net = net
        self._addresses = addresses
        self._header = header
        self._interval_ms = interval_ms
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._warnings = RareWarnings(_log, interval_seconds=60, clock=clock)

    async def start(self) -> None:
        """Send them from now on. Each registration calls it: they are sent once all the same."""
        if self.is_running:
            return
        await super().start()
        self.every("beat", self._interval_ms / 1000, self.beat)

    def beat(self) -> list[asyncio.Task[None]]:
        """One to each controller whose last one has left; gives the tasks that send them."""
        if self.is_silent:
            return []
        return [self._send_to(address) for address in self._addresses() if address not in self._sending]

    async def beat_all(self) -> None:
        """One to each controller; returns when those that can be reached have it on the way."""
        if tasks := self.beat():
            await asyncio.wait(tasks)

    def _send_to(self, address: str) -> asyncio.Task[None]:
        task = self._sending[address] = self.spawn(f"to {address}", self._send(address))
        task.add_done_callback(lambda _task: self._sending.pop(address, None))
        return task

    async def _send(self, address: str) -> None:
        command = Command.request(RequestCode.BROKER_HEARTBEAT, self._header())
        try:
            await self._net.invoke_oneway(address, command, _CONNECT_MS)
        except RocketLakeError as error:
            self._warnings.warn(address, "controller %s gets no heartbeat: %s", address, error)
