"""A reply made in steps: a long request yields between its steps, and other requests are served there.

Owns        the steps of a request over several turns (turns.py), and the answer at their end.
Must not know   what a step does.

Such a handler is a generator: each `yield` ends a step, and the reply is returned. A step may yield a `Wait`: the next
step is done when that is over. A handler must look again, after a `yield`, at tables that it read before: another
request may have changed them. When the asker is gone the rest of the steps is dropped. A request that changes tables is
finished all the same (`finishes`): half a change was not asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias

from rocketlake.base.callbacks import Step, Wait
from rocketlake.base.clock import Clock
from rocketlake.net.dispatcher import run_handler
from rocketlake.net.request import HELD, Handler, Held, Reply, Request
from rocketlake.net.turns import Turns

__all__ = ["ReplySteps", "advance", "in_steps"]

ReplySteps: TypeAlias = Generator[Step, None, "Reply | Held"]


def advance(work: ReplySteps, clock: Clock, turn_end: float) -> Reply | Held | Wait | None:
    """Do steps, at least one, until the turn ends or a step waits. Returns the reply, the wait, or None: go on soon."""
    while True:
        try:
            wait: Wait | None = next(work)
        except StopIteration as end:
            reply: Reply | Held = end.value
            return reply
        if wait is not None or clock.monotonic() > turn_end:
            return wait


def in_steps(serve: Callable[[Request], ReplySteps], turns: Turns, clock: Clock, *, finishes: bool = False) -> Handler:
    """A handler that does the steps of `serve`: within this turn if they fit, else the request is held meanwhile.

    `finishes`: the steps are done to the end even if the asker is gone.
    """

    def go_on(request: Request, work: ReplySteps, turn_end: float) -> Reply | Held:
        outcome = advance(work, clock, turn_end)
        if isinstance(outcome, Reply | Held):
            return outcome
        if outcome is None:
            go_on_soon(request, work)
        else:
            outcome(lambda: go_on_soon(request, work))
        return HELD

    def go_on_soon(request: Request, work: ReplySteps) -> None:
        turns.wait(lambda turn_end: take_up(request, work, turn_end))

    def take_up(request: Request, work: ReplySteps, turn_end: float) -> None:
        if request.asker.closed and not finishes:
            work.close()
            return
        reply = run_handler(lambda request: go_on(request, work, turn_end), request)
        if isinstance(reply, Reply):
            request.answer(reply)

    return lambda request: go_on(request, serve(request), clock.monotonic() + turns.seconds)
