"""A request that is much work is served in turns, so that nobody else waits for it.

Owns        how the work of such a request is cut, continued, and answered at its end.
Must not know   what the work is.

The handler is a generator: it yields wherever others may come in between, and returns the reply. What it has looked at
before a `yield` may have changed behind it. Work whose asker is gone is given up, unless it changes what is kept: half
a change is not what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias

from rocketlake.base.clock import Clock
from rocketlake.net.dispatcher import run_handler
from rocketlake.net.request import HELD, Handler, Held, Reply, Request
from rocketlake.net.turns import Turns

__all__ = ["ReplySteps", "advance", "in_steps"]

ReplySteps: TypeAlias = Generator[None, None, "Reply | Held"]


def advance(work: ReplySteps, clock: Clock, turn_end: float) -> Reply | Held | None:
    """Do steps of the work, one at least, until the turn ends. What the work returns; None: it is not done."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            reply: Reply | Held = end.value
            return reply
        if clock.monotonic() > turn_end:
            return None


def in_steps(serve: Callable[[Request], ReplySteps], turns: Turns, clock: Clock, *, finishes: bool = False) -> Handler:
    """A handler that does the work of `serve`: at once if it is little, else the request is held until it is done.

    `finishes`: it goes on when the asker is gone.
    """

    def go_on(request: Request, work: ReplySteps, turn_end: float) -> Reply | Held:
        reply = advance(work, clock, turn_end)
        if reply is None:
            turns.wait(lambda turn_end: take_up(request, work, turn_end))
            return HELD
        return reply

    def take_up(request: Request, work: ReplySteps, turn_end: float) -> None:
        if request.asker.closed and not finishes:
            work.close()
            return
        reply = run_handler(lambda request: go_on(request, work, turn_end), request)
        if isinstance(reply, Reply):
            request.answer(reply)

    return lambda request: go_on(request, serve(request), clock.monotonic() + turns.seconds)
