"""Requests that store messages while the next file of the commit log is late.

Owns        the line of these requests: which wait, in which order, for how long, the answer when that is too long.
Must not know   how the file is made, what the handlers do.

A worker makes the file as soon as the file before it is begun. So the file is late only on a disk that makes files more
slowly than they fill. Then messages wait here, in the order they came, and the loop does not. A before-hook of the
dispatcher; runs of plain sends look at `line` themselves.

Why: docs/decisions/0022-the-loop-never-waits-for-the-disk.md.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.held.requests import HeldRequests
from rocketlake.broker.intake.put_answer import put_failure
from rocketlake.net.request import HELD, Handler, Held, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutResult, PutStatus

__all__ = ["LateLog"]

_log = get_logger(__name__)

_PUTS = frozenset(
    (
        Code.SEND_MESSAGE,
        Code.SEND_MESSAGE_V2,
        Code.SEND_BATCH_MESSAGE,
        Code.CONSUMER_SEND_MSG_BACK,
        Code.END_TRANSACTION,
        Code.RECALL_MESSAGE,
    )
)
_WAIT_SECONDS = 5.0  # as long as Apache's AllocateMappedFileService lets an append wait
_LOOK_SECONDS = 0.5


class LateLog(Service):
    """The line."""

    def __init__(self, config: LiveConfig, store: MessageStore, turns: Turns, clock: Clock) -> None:
        super().__init__("late-log", clock)
        self.serve: Handler = _not_built
        """Serves a request that has waited: the before-hooks behind `check` see it then, those before have seen it."""
        self._config = config
        self._store = store
        self._turns = turns
        self.line: HeldRequests[Request] = HeldRequests()
        """While a request waits here, no other may pass it. Each is its own key."""
        self._warnings = RareWarnings(_log, clock=clock)
        self._is_planned = False
        self._is_stopped = False
        store.log.allocate.on_made.append(self._go_on_soon)

    async def start(self) -> None:
        """Begin to look for those that have waited too long."""
        await super().start()
        self.every("look", _LOOK_SECONDS, self._look)

    async def stop(self) -> None:
        """Answer all that wait."""
        self._is_stopped = True
        await super().stop()
        self.line.settle_all(_refused(PutStatus.SERVICE_NOT_AVAILABLE, "the broker stops"))

    def check(self, request: Request) -> Reply | Held | None:
        """Before-hook: hold a request that may need the late file; None for all others."""
        if not (self.line.by_key or self._store.log.is_late) or request.code not in _PUTS or self._is_stopped:
            return None
        if len(self.line) >= self._config.now.waiting_sends_max:
            remark = (
                f"[OVERLOAD]system busy, start flow control for a while: {len(self.line)} requests wait for the next"
                " commit log file (sendThreadPoolQueueCapacity)"
            )
            self._warnings.warn("full", "a send of %s is refused: %s", request.address, remark)
            return Reply(ResponseCode.SYSTEM_BUSY, remark=remark)
        self.line.hold(request, request, self.serve)
        return HELD

    def _look(self) -> None:
        now = self._clock.monotonic()
        reason = f"cannot make the next commit log file: it is still being made after {_WAIT_SECONDS:g} s"
        while (request := self.line.first) is not None and now - request.received > _WAIT_SECONDS:
            self.line.settle(request, _refused(PutStatus.CREATE_FILE_FAILED, reason))
        self._go_on_soon()

    def _go_on_soon(self) -> None:
        if self.line and not self._is_planned and not self._store.log.is_late:
            self._is_planned = True
            self._turns.wait(self._go_on)

    def _go_on(self, turn_end: float) -> None:
        self._is_planned = False
        while (request := self.line.first) is not None and not self._store.log.is_late:
            self.line.settle(request)
            if self._clock.monotonic() > turn_end:
                break
        self._go_on_soon()


def _refused(status: PutStatus, reason: str) -> Handler:
    return lambda _request: put_failure(status, PutResult(status, reason=reason))


def _not_built(_request: Request) -> Reply:
    raise AssertionError("the broker sets it")
