"""Receives that wait for messages: a line for each group, topic and broker, and one question at the broker for each.

Owns        the lines, who of a line gets what is popped, the question whether there is a message.
Must not know   calls of gRPC, how messages are popped and given back.

A waiting pop would take messages for a client that may be gone by then. What waits at the broker is a NOTIFICATION,
which takes nothing; the pop follows, for the first of the line. So a client that goes away only leaves its line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from rocketlake.base.clock import Clock
from rocketlake.client.calls.pop import BORN_BY_BROKER
from rocketlake.model.pop import ANY_QUEUE
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.pop import NotificationHeader, NotificationReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.proxy.cluster import Cluster
from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.v2 import messages as v2

__all__ = ["LineKey", "WaitingLines"]

_POLL_MS: Final = 5000
"""The broker tells one of those that ask. If that is the question of a line that is empty by now, the others wait for
so long at most."""
_ORDERED_POLL_MS: Final = 1000
"""Apache's broker does not tell when a queue that is read in order is free again."""
_ANSWER_MS: Final = 3000
_PAUSE_SECONDS: Final = 0.05
"""Behind a pop that found nothing though there was a message: others were faster, or it does not fit the filter."""


class LineKey(NamedTuple):
    """What the receives of a line have in common."""

    broker_name: str
    topic: str
    group: str
    expression_type: str
    expression: str
    in_order: bool
    attempt_id: str | None
    """Of a receive in order only: its messages of before do not stop it."""


class _Asked(Protocol):
    @property
    def line(self) -> LineKey: ...


A = TypeVar("A", bound=_Asked)
T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Waiter(Generic[A, T]):
    asked: A
    taken: asyncio.Future[list[T]]


@dataclass(eq=False, slots=True)
class _Line(Generic[A, T]):
    waiting: dict[_Waiter[A, T], None] = field(default_factory=dict)


class WaitingLines(Generic[A, T]):
    """The lines of one proxy."""

    def __init__(
        self,
        cluster: Cluster,
        pop: Callable[[A], Awaitable[list[T]]],
        give_back: Callable[[A, list[T]], object],
        clock: Clock,
        spawn: Callable[..., Any],
    ) -> None:
        """`pop` takes what there is now; `give_back` gets it if nobody wants it any more."""
        self._cluster = cluster
        self._pop = pop
        self._give_back = give_back
        self._clock = clock
        self._spawn = spawn
        self.lines: dict[LineKey, _Line[A, T]] = {}

    async def wait(self, asked: A, seconds: float) -> list[T]:
        """What was popped for this receive; [] when the time is over. RemoteError, LinkError, Refused."""
        waiter = _Waiter[A, T](asked, asyncio.get_running_loop().create_future())
        line = self.lines.get(asked.line)
        if line is None:
            line = self.lines[asked.line] = _Line()
            self._spawn("line", self._serve(asked.line, line))
        line.waiting[waiter] = None
        try:
            await self._clock.wait(waiter.taken, seconds)
        except asyncio.CancelledError:
            if waiter.taken.done() and waiter.taken.exception() is None:
                self._give_back(asked, waiter.taken.result())
            raise
        finally:
            line.waiting.pop(waiter, None)
            if not waiter.taken.done():
                waiter.taken.set_result([])
        return waiter.taken.result()

    def leave(self) -> None:
        """The proxy stops: nobody waits any longer."""
        for line in self.lines.values():
            for waiter in line.waiting:
                if not waiter.taken.done():
                    waiter.taken.set_result([])

    async def _serve(self, key: LineKey, line: _Line[A, T]) -> None:
        try:
            while line.waiting:
                if await self._has_message(key) and not await self._hand_out(line):
                    await self._clock.sleep(_PAUSE_SECONDS)
        except Exception as error:
            for waiter in line.waiting:
                if not waiter.taken.done():
                    waiter.taken.set_exception(error)
        finally:
            del self.lines[key]

    async def _hand_out(self, line: _Line[A, T]) -> bool:
        """Pop for one after the other until nothing is left. False if there was nothing."""
        has_popped = False
        while line.waiting:
            waiter = next(iter(line.waiting))
            taken = await self._pop(waiter.asked)
            if not taken:
                break
            has_popped = True
            line.waiting.pop(waiter, None)
            if waiter.taken.done():
                self._give_back(waiter.asked, taken)
            else:
                waiter.taken.set_result(taken)
        return has_popped

    async def _has_message(self, key: LineKey) -> bool:
        poll_ms = _ORDERED_POLL_MS if key.in_order else _POLL_MS

        def make() -> Command:
            header = NotificationHeader(
                consumer_group=key.group,
                topic=key.topic,
                queue_id=ANY_QUEUE,
                poll_time=poll_ms,
                born_time=BORN_BY_BROKER,
                order=key.in_order,
                attempt_id=key.attempt_id,
                exp_type=key.expression_type,
                exp=key.expression,
            )
            return Command.request(RequestCode.NOTIFICATION, header)

        answer = await self._cluster.ask_master(key.topic, key.broker_name, make, poll_ms + _ANSWER_MS)
        found = answer.header(NotificationReplyHeader)
        if found.polling_full:
            raise Refused(v2.Code.TOO_MANY_REQUESTS, "too many receives wait at the broker")
        return found.has_msg
