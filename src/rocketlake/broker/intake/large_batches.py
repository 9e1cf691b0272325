"""Batches of thousands of messages: stored one after the other, each made ready in turns.

Owns        which batch is worked on, how long one may wait.
Must not know   how a batch is made ready and stored (sends/batch.py, store/large_batch.py).

A batch may be as large as maxMessageSize, here as in Apache's broker: that can be a hundred thousand small messages and
half a second of work. It is worked on in turns, and only its last step, the write, holds up the loop. A producer that
sends a message behind such a batch without waiting for the answer may find it stored before the batch.

A batch that stood in line for too long is refused before any work on it. Its producer gives up after three seconds and
sends it again, so it would be stored twice.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from inspect import GEN_CREATED, getgeneratorstate

from rocketlake.base.callbacks import call
from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.config import LiveConfig
from rocketlake.net.dispatcher import run_handler
from rocketlake.net.reply_steps import ReplySteps, advance
from rocketlake.net.request import HELD, Handler, Held, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.net.waiting_bytes import WaitingBytes
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["LARGE", "LargeBatches"]

_log = get_logger(__name__)

LARGE = 1000
"""A batch of more messages than this is made ready in turns, because it takes more than some six milliseconds."""
_WAITING_SECONDS_MAX = 1.0
"""How long a batch may stand in line, unless waitTimeMillsInSendQueue is longer: one batch before it takes so long."""


class LargeBatches:
    """The line of large batches."""

    def __init__(self, config: LiveConfig, turns: Turns, clock: Clock) -> None:
        self._config = config
        self._turns = turns
        self._clock = clock
        self._line: deque[tuple[Request, ReplySteps]] = deque()
        self._room = WaitingBytes("a batch", "large batches", "send smaller ones or later", clock)
        self._warnings = RareWarnings(_log, interval_seconds=10, clock=clock)

    def serve(self, request: Request, store: Callable[[Request], ReplySteps]) -> Reply | Held:
        """Store the batch of this request after all batches before it in the line."""
        refusal = self._room.take(request, len(self._line))
        if refusal is not None:
            return refusal
        self._line.append((request, self._in_time(request, store)))
        if len(self._line) == 1:
            self._turns.wait(self._go_on)
        return HELD

    def end(self, refuse: Handler) -> None:
        """Finish the batch in work; answer each batch behind it by `refuse`."""
        if self._line and getgeneratorstate(self._line[0][1]) != GEN_CREATED:
            self._go_on(math.inf)
        while self._line:
            request, steps = self._line.popleft()
            steps.close()
            self._room.give_back(request)
            reply = run_handler(refuse, request)
            if isinstance(reply, Reply):
                call(request.answer, reply)

    def _in_time(self, request: Request, store: Callable[[Request], ReplySteps]) -> ReplySteps:
        """The steps of `store`, unless the sender has given up before the first of them."""
        config = self._config.now
        waited = self._clock.monotonic() - request.received
        allowed = max(_WAITING_SECONDS_MAX, config.send_age_max_ms / 1000)
        if config.fast_failure and waited > allowed:
            remark = (
                f"[TIMEOUT_CLEAN_QUEUE]broker busy: this batch stood in line for {waited:.1f} s behind others,"
                f" {allowed:g} s are allowed (waitTimeMillsInSendQueue); send smaller ones or later"
            )
            self._warnings.warn("late", "a large batch of %s is refused: %s", request.address, remark)
            return Reply(ResponseCode.SYSTEM_BUSY, remark=remark)
        return (yield from store(request))

    def _go_on(self, turn_end: float) -> None:
        if not self._line:
            return  # `end` has emptied the line
        request, steps = self._line[0]
        is_done = True

        def serve(_request: Request) -> Reply | Held:
            nonlocal is_done
            outcome = advance(steps, self._clock, turn_end)  # no step of a batch waits
            is_done = isinstance(outcome, Reply | Held)
            return outcome if isinstance(outcome, Reply | Held) else HELD

        reply = run_handler(serve, request)
        if is_done:
            self._line.popleft()
            self._room.give_back(request)
            if isinstance(reply, Reply):
                call(request.answer, reply)
        if self._line:
            self._turns.wait(self._go_on)
