"""LocalLink: one end of a connection inside this process. Commands are handed over as objects, without bytes.

Owns        the pair of ends, the order of the commands between them, the end of both.
Must not know   servers (server.py makes a pair), the meaning of request codes.

A proxy, a replica or a console asks a broker this way. The broker's handlers see an asker like any other: its requests
queue for turns, only so many of them may be held, none is served while the asker does not read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from rocketlake.base.callbacks import call_each
from rocketlake.base.errors import LinkError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.net.asked import Asked
from rocketlake.net.endpoint import Endpoint
from rocketlake.net.peer import Peer
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.command import Command

__all__ = ["LocalLink"]

_log: Final = get_logger(__name__)


class LocalLink(Peer):
    """One end. `invoke` asks the other end; the requests of the other end are served by the handlers of this one."""

    inside = True

    def __init__(
        self,
        endpoint: Endpoint,
        remote: tuple[str, int],
        expects: Callable[[LocalLink], None],
        refuse: Callable[[Request], Reply | None] | None = None,
    ) -> None:
        """`remote`: the address of the other end; `expects` is told that `sweep` has deadlines to look at;
        `refuse` may answer a request before it is dispatched."""
        super().__init__(endpoint)
        self.remote = remote
        self.address = f"{remote[0]}:{remote[1]}"
        self.asked = Asked(self, self._hand_over, endpoint.limits.pending, endpoint.clock)
        self._clock = endpoint.clock
        self._turns = endpoint.turns
        self._expects = expects
        self._refuse = refuse
        self._other: LocalLink | None = None
        self._reads = True
        self._closing = False
        self._backlog: deque[Command] = deque()
        self._turn_planned = False

    def join(self, other: LocalLink) -> None:
        """Connect two new ends with each other."""
        self._other, other._other = other, self

    # -- asking ----------------------------------------------------------------------------------------------------

    def start(self, command: Command, timeout_ms: float) -> asyncio.Future[Command]:
        """Asks the other end; the future gets its answer, InvokeTimeout, or LinkError when the link closes."""
        if self._closing:
            raise LinkError(f"link to {self.address} is closed")
        future = self.asked.start(command, timeout_ms)
        self._expects(self)
        return future

    def send(self, command: Command) -> None:
        """Hands over a one-way request. Nothing happens on a closed link."""
        if not self._closing:
            self.asked.send(command)

    def stop_reading(self) -> None:
        """This end takes no answers for a while: the other end sees it as not writable, and serves it no more."""
        self._reads = False

    def go_on_reading(self) -> None:
        """This end takes answers again."""
        self._reads = True
        if self._other is not None:
            self._other._plan_turn()

    def _hand_over(self, command: Command) -> None:
        if command.block is not None:
            raise UsageError("a header block cannot be handed over inside a process", hint="give the fields instead")
        if self._other is not None:
            self._other._take(_copy(command))

    # -- serving ---------------------------------------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        """False while the other end does not read, and when the link is closed."""
        return not self._closing and self._other is not None and self._other._reads

    @property
    def unfinished(self) -> int:
        """Held requests, and requests that are not served yet."""
        return self.held + len(self._backlog)

    def _take(self, command: Command) -> None:
        if len(self._backlog) >= self._limits.pending:
            self.abort("flood", f"{len(self._backlog)} requests wait to be served")
        else:
            self._backlog.append(command)
            self._plan_turn()

    def _plan_turn(self) -> None:
        if self._backlog and not self._turn_planned and self.writable:
            self._turn_planned = True
            self._turns.wait(self._serve_on)

    def _serve_on(self, turn_end: float) -> None:
        self._turn_planned = False
        now = self._clock.monotonic()
        while self._backlog and self.writable:
            self.serve(self._backlog.popleft(), now)
            if self._clock.monotonic() > turn_end:
                break
        self._plan_turn()

    def _admit(self, request: Request) -> Reply | None:
        refusal = self._refuse(request) if self._refuse is not None else None
        return refusal or super()._admit(request)

    def _write_answer(self, answer: Command) -> None:
        if self._other is not None and not self._other.asked.resolve(answer):
            _log.debug("late answer %d to %s dropped", answer.opaque, self.address)

    # -- life ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends both ends in the next turn of the loop. Callable at any time, more than once."""
        for end in (self, self._other):
            if end is not None and not end._closing:
                end._closing = True
                asyncio.get_running_loop().call_soon(end._lost)

    def abort(self, kind: str, why: str) -> None:
        """Closes. The log says why."""
        if not self._closing:
            self._warnings.warn(f"{self.remote[0]} {kind}", "link %s closed: %s", self.address, why)
            self.close()

    def sweep(self, now: float) -> None:
        """Nothing: an end that is silent costs nothing, and its owner lives in this process."""

    def _lost(self) -> None:
        self.closed = True
        self._backlog.clear()
        self.asked.fail_all(f"link to {self.address} closed")
        call_each(self.on_close, self)


def _copy(request: Command) -> Command:
    """The request as it is now. Its sender may send the object again, which gives the object another opaque."""
    return Command(
        request.code,
        opaque=request.opaque,
        flag=request.flag,
        language=request.language,
        version=request.version,
        remark=request.remark,
        fields=request.fields,
        body=None if request.body is None else request.body_bytes,
        codec=request.codec,
    )
