"""Renewals: messages whose client leaves it to the proxy to keep them invisible (auto_renew), as push consumers do.

Owns        which message has which receipt by now, when its invisible time is made longer, when that ends.
Must not know   calls of gRPC.

Only this proxy knows a new receipt. Where it ends, or the client comes to another proxy, a message comes again when its
time is over: that costs a duplicate, and loses nothing. Apache's proxy does the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.proxy.convert.receipts import Receipt
from rocketlake.proxy.services.received import RETURNED_MS, Received

__all__ = ["FIRST_INVISIBLE_MS", "Renewals"]

_log: Final = get_logger(__name__)

_MINUTE_MS: Final = 60_000
FIRST_INVISIBLE_MS: Final = _MINUTE_MS
_STEPS_MS: Final = tuple(minutes * _MINUTE_MS for minutes in (1, 3, 5, 10, 30, 60))
_LOOK_SECONDS: Final = 5.0
_AHEAD_MS: Final = 10_000
_LONGEST_MS: Final = 3 * 60 * _MINUTE_MS
"""A message that is held for so long is renewed no more: its client hangs."""
_FAILURES_MAX: Final = 3
_HELD_MAX: Final = 200_000


@dataclass(eq=False, slots=True)
class _Held:
    client_id: str
    topic: str
    group: str
    receipt: Receipt
    since_ms: int
    renewed: int = 0
    failures: int = 0
    is_over: bool = False
    is_asked: bool = False
    """An acknowledgement is under way without the lock (see `begin`)."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """An acknowledgement waits for a renewal that is under way: otherwise the new check point would stay."""


class Renewals(Service):
    """Of one proxy."""

    def __init__(self, received: Received, is_connected: Callable[[str], bool], clock: Clock) -> None:
        """`is_connected`: says if this client has its stream of commands open. Without it nothing is renewed."""
        super().__init__("proxy-renewals", clock)
        self._received = received
        self._is_connected = is_connected
        self.held: dict[str, _Held] = {}
        """By the receipt that the client has."""
        self._warnings = RareWarnings(_log, clock=self._clock)

    async def start(self) -> None:
        """Renew from now on."""
        await super().start()
        self.every("renew", _LOOK_SECONDS, self._look)

    def hold(self, client_id: str, topic: str, group: str, receipt: Receipt) -> None:
        """The client has this message, and wants it kept."""
        if len(self.held) < _HELD_MAX:
            self.held[str(receipt)] = _Held(client_id, topic, group, receipt, self._clock.now_ms())

    @asynccontextmanager
    async def settle(self, text: str) -> AsyncGenerator[Receipt, None]:
        """Gives the receipt that counts now; behind the block, unless it raises, the message is renewed no more.

        Refused: the text is no receipt.
        """
        held = self.held.get(text)
        if held is None:
            yield Receipt.parse(text)
            return
        async with held.lock:
            yield held.receipt
            self._end(text)

    def is_free(self, text: str) -> bool:
        """True if neither a renewal nor an acknowledgement of this message is under way."""
        held = self.held.get(text)
        return held is None or not (held.lock.locked() or held.is_asked)

    def receipt(self, text: str) -> Receipt:
        """The receipt that counts now. Refused: the text is no receipt."""
        held = self.held.get(text)
        return Receipt.parse(text) if held is None else held.receipt

    def begin(self, text: str) -> None:
        """`settle` without a task: from here to `finish` the message is not renewed. It must be free."""
        held = self.held.get(text)
        if held is not None:
            held.is_asked = True

    def finish(self, text: str, *, is_done: bool) -> None:
        """See `begin`. `is_done`: the message is renewed no more."""
        held = self.held.get(text)
        if held is not None:
            held.is_asked = False
            if is_done:
                self._end(text)

    def client_left(self, client_id: str) -> None:
        """The client has said that it goes: what it holds comes again soon."""
        for text, held in list(self.held.items()):
            if held.client_id == client_id:
                self._end(text)
                self.spawn("give back", self._change(held, RETURNED_MS))

    def _end(self, text: str) -> None:
        held = self.held.pop(text, None)
        if held is not None:
            held.is_over = True

    def _look(self) -> None:
        now_ms = self._clock.now_ms()
        due = []
        for text, held in list(self.held.items()):
            left_ms = held.receipt.expires_ms - now_ms
            if left_ms <= 0 or now_ms - held.since_ms > _LONGEST_MS or held.failures >= _FAILURES_MAX:
                self._end(text)
            elif left_ms <= _AHEAD_MS and self._is_connected(held.client_id):
                due.append(held)
        for held in due:
            self.spawn("renew", self.renew(held))

    async def renew(self, held: _Held) -> None:
        """Make its invisible time longer, unless its client is done with it meanwhile."""
        async with held.lock:
            if not held.is_over and not held.is_asked:
                await self._change(held, _STEPS_MS[min(held.renewed, len(_STEPS_MS) - 1)])

    async def _change(self, held: _Held, invisible_ms: int) -> None:
        try:
            held.receipt = await self._received.change(held.topic, held.group, held.receipt, invisible_ms)
            held.renewed += 1
        except RocketLakeError as error:
            held.failures += 1
            self._warnings.warn(held.group, "a message of group %s is not renewed: %s", held.group, error)
