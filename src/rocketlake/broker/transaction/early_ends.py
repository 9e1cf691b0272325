"""Ends of transactions that come before it is known which transactions are ended: right behind a start or a promotion.

Owns        the line of these ends: which wait, in which order, for how long.
Must not know   how the ledger is filled, what an end does.

Producers send an end once and look for no answer: if it is refused, its transaction is open until the broker asks.
The ledger is read in well under a second, unless the log behind its oldest half message is long and not in memory.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.held.requests import HeldRequests
from rocketlake.broker.transaction.ledger import HalfLedger, not_known
from rocketlake.net.request import HELD, Handler, Held, Reply, Request

__all__ = ["EarlyEnds"]

_WAIT_SECONDS = 5.0
_LOOK_SECONDS = 0.01
_TURN_SECONDS = 0.002


class EarlyEnds(Service):
    """The line."""

    def __init__(
        self, serve: Handler, ledger: HalfLedger, config: LiveConfig, clock: Clock, *, is_late: Callable[[], bool]
    ) -> None:
        """`serve`: ends a transaction. `is_late`: the next file of the log is (late_log.py)."""
        super().__init__("early-ends", clock)
        self._serve = serve
        self._is_late = is_late
        self._ledger = ledger
        self._config = config
        self._line: HeldRequests[Request] = HeldRequests()
        """Each is its own key. While one waits here, no later one may pass it."""

    async def stop(self) -> None:
        """Answer all that wait."""
        await super().stop()
        self._line.settle_all(_refuse)

    @property
    def may_pass(self) -> bool:
        """True if an end may be served now."""
        return self._ledger.is_known and not self._line

    def end(self, request: Request) -> Reply | Held:
        """Serve an end, or hold one that comes too early. RemoteError if too many wait."""
        if self.may_pass:
            return self._serve(request)
        if len(self._line) >= self._config.now.waiting_sends_max or not self.is_running:
            raise not_known()
        self._line.hold(request, request, self._serve)
        if len(self._line) == 1:
            self.spawn("line", self._go_on())
        return HELD

    async def _go_on(self) -> None:
        """Serve the line once the ledger is known, or refuse those that have waited too long."""
        while self._line:
            turn_end = self._clock.monotonic() + _TURN_SECONDS
            while (request := self._line.first) is not None and self._clock.monotonic() < turn_end:
                if self._may_serve:
                    self._line.settle(request)
                elif self._clock.monotonic() - request.received > _WAIT_SECONDS:
                    self._line.settle(request, _refuse)
                else:
                    break
            await self._clock.sleep(0 if self._may_serve else _LOOK_SECONDS)

    @property
    def _may_serve(self) -> bool:
        return self._ledger.is_known and not self._is_late()


def _refuse(_request: Request) -> Reply:
    raise not_known()
