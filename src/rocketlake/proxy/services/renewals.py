"""Renewals: messages whose client leaves it to the proxy to keep them invisible (auto_renew), as push consumers do.

Owns        which message has which receipt by now, when its invisible time is made longer, when that ends.
Must not know   calls of gRPC.

Only this proxy knows a new receipt. Where it ends, or the client comes to another proxy, a message comes again when its
time is over: that costs a duplicate, and loses nothing. Apache's proxy does the same.

Most messages are acknowledged within their first invisible time. Until then one is an entry of a table and no more;
what the messages of one receive have in common stands once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.net.client import some_at_once
from rocketlake.proxy.convert.receipts import Receipt
from rocketlake.proxy.services.received import RETURNED_MS

__all__ = ["FIRST_INVISIBLE_MS", "HELD_MAX", "Changes", "Renewals"]

_log: Final = get_logger(__name__)

_MINUTE_MS: Final = 60_000
FIRST_INVISIBLE_MS: Final = _MINUTE_MS
_STEPS_MS: Final = tuple(minutes * _MINUTE_MS for minutes in (1, 3, 5, 10, 30, 60))
_LOOK_SECONDS: Final = 5.0
_AHEAD_SECONDS: Final = 10.0
_LONGEST_SECONDS: Final = 3 * 3600.0
"""A message that is held for so long is renewed no more: its client hangs."""
_FAILURES_MAX: Final = 3
HELD_MAX: Final = 1_000_000
"""A message above it is not renewed, and the log says so: it comes again after a minute."""


class Changes(Protocol):
    """Asks brokers (received.py)."""

    async def change(self, topic: str, group: str, receipt: Receipt, invisible_ms: int) -> Receipt:
        """Have the message come again after this time. Returns its new receipt. RemoteError, LinkError."""


class _Receive(NamedTuple):
    """What the messages of one receive have in common."""

    client_id: str
    topic: str
    group: str
    broker_name: str
    since: float
    """When they came, in seconds of the monotonic clock: the wall clock may step, and the broker's may be another."""


@dataclass(eq=False, slots=True)
class _Held:
    """A message whose receipt is renewed, was renewed, or is being acknowledged."""

    of: _Receive
    receipt: Receipt
    due: float
    """Its invisible time ends then, in seconds of the monotonic clock."""
    renewed: int = 0
    failures: int = 0
    is_over: bool = False
    is_asked: bool = False
    """An acknowledgement is under way without the lock (see `begin`)."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """An acknowledgement waits for a renewal that is under way: otherwise the new check point would stay."""


class Renewals(Service):
    """Of one proxy. Messages are named by the text of the receipt that their client has."""

    def __init__(
        self, received: Changes, is_connected: Callable[[str], bool], clock: Clock, *, held_max: int = HELD_MAX
    ) -> None:
        """`is_connected`: says if this client has its stream of commands open. Without it nothing is renewed."""
        super().__init__("proxy-renewals", clock)
        self._received = received
        self._is_connected = is_connected
        self._held_max = held_max
        self._fresh: dict[str, _Receive] = {}
        """Messages in their first invisible time, oldest first."""
        self._acking: dict[str, _Receive] = {}
        """Those of them whose acknowledgement is under way (see `begin`)."""
        self._held: dict[str, _Held] = {}
        self._renewing: set[str] = set()
        """Brokers that are asked to renew messages."""
        self._warnings = RareWarnings(_log, clock=self._clock)

    async def start(self) -> None:
        """Renew from now on."""
        await super().start()
        self.every("renew", _LOOK_SECONDS, self.look)

    def __len__(self) -> int:
        """Messages that are kept invisible."""
        return len(self._fresh) + len(self._acking) + len(self._held)

    def __contains__(self, text: str) -> bool:
        return text in self._fresh or text in self._acking or text in self._held

    def hold(self, client_id: str, topic: str, group: str, receipts: Sequence[Receipt]) -> None:
        """The client has these messages of one pop, and wants them kept."""
        if not receipts:
            return
        receive = _Receive(client_id, topic, group, receipts[0].handle.broker_name, self._clock.monotonic())
        for receipt in receipts:
            if len(self) < self._held_max:
                self._fresh[str(receipt)] = receive
            else:
                self._warnings.warn(
                    "full",
                    "a message of group %s is not renewed, and comes again after %d s: this proxy keeps %d already",
                    *(group, FIRST_INVISIBLE_MS // 1000, self._held_max),
                )

    # -- acknowledgements ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def settle(self, text: str) -> AsyncGenerator[Receipt, None]:
        """Gives the receipt that counts now; behind the block, unless it raises, the message is renewed no more.

        Refused: the text is no receipt.
        """
        held = self._find(text)
        if held is None:
            yield Receipt.parse(text)
            return
        async with held.lock:
            yield held.receipt
            self._end(text)

    def is_free(self, text: str) -> bool:
        """True if neither a renewal nor an acknowledgement of this message is under way."""
        held = self._held.get(text)
        return text not in self._acking and (held is None or not (held.lock.locked() or held.is_asked))

    def receipt(self, text: str) -> Receipt:
        """The receipt that counts now. Refused: the text is no receipt."""
        held = self._held.get(text)
        return Receipt.parse(text) if held is None else held.receipt

    def begin(self, text: str) -> None:
        """`settle` without a task: from here to `finish` the message is not renewed. It must be free."""
        receive = self._fresh.pop(text, None)
        if receive is not None:
            self._acking[text] = receive
        elif text in self._held:
            self._held[text].is_asked = True

    def finish(self, text: str, *, is_done: bool) -> None:
        """See `begin`. `is_done`: the message is renewed no more."""
        receive = self._acking.pop(text, None)
        if receive is not None and not is_done:
            self._set_apart(text, receive)
        elif text in self._held:
            self._held[text].is_asked = False
            if is_done:
                self._end(text)

    # -- renewals ------------------------------------------------------------------------------------------------------

    def client_left(self, client_id: str) -> None:
        """The client has said that it goes: what it holds comes again soon."""
        texts = [text for text, receive in self._fresh.items() if receive.client_id == client_id]
        texts += [text for text, held in self._held.items() if held.of.client_id == client_id]
        if texts:
            self.spawn("give back", some_at_once(self._give_back, texts))

    def look(self) -> None:
        """Renew what is due soon, forget what is over."""
        now = self._clock.monotonic()
        due: dict[str, list[str]] = {}
        over = []
        for text, receive in self._fresh.items():
            left = receive.since + FIRST_INVISIBLE_MS / 1000 - now
            if left > _AHEAD_SECONDS:
                break  # the others came later
            if left <= 0:
                over.append(text)
            elif self._is_connected(receive.client_id):
                due.setdefault(receive.broker_name, []).append(text)
        for text, held in self._held.items():
            left = held.due - now
            if left <= 0 or now - held.of.since > _LONGEST_SECONDS or held.failures >= _FAILURES_MAX:
                over.append(text)
            elif left <= _AHEAD_SECONDS and self._is_connected(held.of.client_id):
                due.setdefault(held.of.broker_name, []).append(text)
        for text in over:
            self._end(text)
        for broker_name, texts in due.items():
            # A broker that does not answer keeps no other waiting. Of one that is slow the next look finds the rest.
            if broker_name not in self._renewing:
                self._renewing.add(broker_name)
                self.spawn("renew", self._renew_all(broker_name, texts))

    async def _renew_all(self, broker_name: str, texts: list[str]) -> None:
        try:
            await some_at_once(self.renew, texts)
        finally:
            self._renewing.discard(broker_name)

    async def renew(self, text: str) -> None:
        """Make its invisible time longer, unless its client is done with it meanwhile."""
        held = self._find(text)
        if held is None:
            return
        async with held.lock:
            if not held.is_over and not held.is_asked:
                await self._change(held, _STEPS_MS[min(held.renewed, len(_STEPS_MS) - 1)])

    async def _give_back(self, text: str) -> None:
        held = self._find(text)
        if held is None:
            return
        async with held.lock:
            if not held.is_over and not held.is_asked:
                self._end(text)
                await self._change(held, RETURNED_MS)

    async def _change(self, held: _Held, invisible_ms: int) -> None:
        of = held.of
        try:
            held.receipt = await self._received.change(of.topic, of.group, held.receipt, invisible_ms)
            held.due = self._clock.monotonic() + invisible_ms / 1000
            held.renewed += 1
        except RocketLakeError as error:
            held.failures += 1
            self._warnings.warn(of.group, "a message of group %s is not renewed: %s", of.group, error)

    # -- the table -----------------------------------------------------------------------------------------------------

    def _find(self, text: str) -> _Held | None:
        """The held message with a lock of its own; None if it is not held, or being acknowledged without one."""
        receive = self._fresh.pop(text, None)
        return self._held.get(text) if receive is None else self._set_apart(text, receive)

    def _set_apart(self, text: str, receive: _Receive) -> _Held:
        held = self._held[text] = _Held(receive, Receipt.parse(text), receive.since + FIRST_INVISIBLE_MS / 1000)
        return held

    def _end(self, text: str) -> None:
        self._fresh.pop(text, None)
        held = self._held.pop(text, None)
        if held is not None:
            held.is_over = True
