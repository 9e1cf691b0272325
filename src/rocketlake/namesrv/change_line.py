"""Changes of the route table are made one behind the other, each in steps.

Owns        the line of changes; which request is answered at once, which one is held.
Must not know   what a change does.

A registration of many topics takes many turns of the loop. A farewell or a lost link that comes meanwhile waits behind
it, so the later change wins. Questions do not wait: they see each topic either before or after the change. A
registration for which the line has no room is refused: its broker registers again in its next round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TypeAlias

from rocketlake.base.callbacks import raised
from rocketlake.base.clock import Clock
from rocketlake.net.dispatcher import run_handler
from rocketlake.net.reply_steps import ReplySteps, advance
from rocketlake.net.request import HELD, Handler, Held, Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.net.waiting_bytes import WaitingBytes

__all__ = ["Change", "ChangeLine"]

_AT_ONCE = float("-inf")
"""The end of a turn of one step: the line looks at the time itself."""

Change: TypeAlias = Generator[None, None, None]


class ChangeLine:
    """All changes, in the order they came. The first is under way."""

    def __init__(self, turns: Turns, clock: Clock) -> None:
        self._turns = turns
        self._clock = clock
        self._line: deque[Change] = deque()
        self._room = WaitingBytes("a change", "changes", "send this one again later", clock)
        """For some forty registrations of 10,000 topics."""

    def add(self, change: Change) -> None:
        """Make this change: at once if the line is empty and its steps fit into this turn, else behind the others."""
        self._line.append(change)
        if len(self._line) == 1:
            self._go_on(self._clock.monotonic() + self._turns.seconds)

    def handler(self, serve: Callable[[Request], ReplySteps]) -> Handler:
        """A handler whose request is a change. The change is made even if the asker is gone meanwhile."""

        def handle(request: Request) -> Reply | Held:
            replies: list[Reply] = []
            held = False
            refusal = self._room.take(request, len(self._line))
            if refusal is not None:
                return refusal

            def change() -> Change:
                reply = yield from self._serving(serve, request)
                self._room.give_back(request)
                if held:
                    request.answer(reply)
                else:
                    replies.append(reply)

            self.add(change())
            held = not replies
            return replies[0] if replies else HELD

        return handle

    def _serving(self, serve: Callable[[Request], ReplySteps], request: Request) -> Generator[None, None, Reply]:
        """The steps of a request, which never wait; an error in them becomes the reply."""
        steps = serve(request)

        def step(_request: Request) -> Reply | Held:
            outcome = advance(steps, self._clock, _AT_ONCE)
            return outcome if isinstance(outcome, Reply) else HELD

        while True:
            reply = run_handler(step, request)
            if isinstance(reply, Reply):
                return reply
            yield

    def _go_on(self, turn_end: float) -> None:
        while self._line:
            change = self._line[0]
            try:
                next(change)
            except StopIteration:
                self._line.popleft()
            except Exception as error:
                self._line.popleft()
                raised(self._go_on, error)
            if self._line and self._clock.monotonic() > turn_end:
                self._turns.wait(self._go_on)
                return
