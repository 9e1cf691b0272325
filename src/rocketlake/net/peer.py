"""Peer: the far side of a link, as our handlers see it: an asker whose requests are served one by one.

Owns        the asker's address and notes, the count of its held requests, the refusal of one request too many.
Must not know   bytes and transports (link.py), the table of handlers (dispatcher.py).
"""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from rocketlake.auth.user import User
from rocketlake.base.errors import LinkError, ProtocolError
from rocketlake.base.logs import get_logger
from rocketlake.net.asked import Asked
from rocketlake.net.endpoint import Endpoint
from rocketlake.net.request import HELD, Asker, Held, Reply, Request
from rocketlake.protocol.command import FLAG_ONEWAY, Command
from rocketlake.protocol.request_code import request_name
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Peer"]

_log: Final = get_logger(__name__)
_OVERLOAD: Final = "[OVERLOAD]system busy, start flow control for a while"
_SLOW_SECONDS: Final = 0.5
_ids: Final = itertools.count(1)


class Peer(ABC):
    """Base of links. Dead after `closed`, for good."""

    asked: Asked
    """Our requests to the peer."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.id = next(_ids)
        self.remote: tuple[str, int] = ("", 0)
        self.address = "unconnected"
        self.is_encrypted = False
        self.certificate_name = ""
        """Who the peer is by a certificate that was checked: its common name, else its first other name; or ""."""
        self.user: User | None = None
        self.state: dict[str, Any] = {}
        self.on_close: list[Callable[[Asker], None]] = []
        self.closed = False
        self.held = 0
        self._dispatcher = endpoint.dispatcher
        self._limits = endpoint.limits
        self._warnings = endpoint.warnings
        self._clock = endpoint.clock

    @property
    def room_to_hold(self) -> int:
        """How many more requests of this peer may be held."""
        return self._limits.held - self.held

    @property
    @abstractmethod
    def writable(self) -> bool:
        """False while the peer does not read its answers, and when the link is closed."""

    @abstractmethod
    def send(self, command: Command) -> None:
        """Send a one-way request to the peer. Nothing happens on a closed link."""

    @abstractmethod
    def start(self, command: Command, timeout_ms: float) -> asyncio.Future[Command]:
        """Ask the peer; the future gets its answer, InvokeTimeout, or LinkError when the link closes."""

    @abstractmethod
    def close(self) -> None:
        """End the link after its last answers. Callable at any time, more than once."""

    @abstractmethod
    def abort(self, kind: str, why: str) -> None:
        """End the link at once. The log says why; the same `kind` again and again fills no log."""

    @abstractmethod
    def sweep(self, now: float) -> None:
        """Called about once a second with monotonic time: ends a link that is idle or stuck."""

    @property
    @abstractmethod
    def unfinished(self) -> int:
        """Held requests, requests that are not served yet, and answers that are not written yet."""

    @abstractmethod
    def _write_answer(self, answer: Command) -> None:
        """Write an answer to the peer. Raises ProtocolError if no frame can hold it."""

    async def invoke(self, command: Command, timeout_ms: float = 3000) -> Command:
        """Ask the peer and wait for its answer. Raises InvokeTimeout or LinkError."""
        try:
            return await self.start(command, timeout_ms)
        except LinkError as problem:
            if not problem.where:
                problem.where = f"{request_name(command.code)} to {self.address}, timeout {timeout_ms:g} ms"
            raise

    def serve(self, command: Command, received: float) -> None:
        """Serve one request of the peer, received at this monotonic time: answer it now, or count it as held."""
        request = Request(command, self, received)
        reply: Reply | Held = self._admit(request) or self._dispatcher.dispatch(request)
        if reply is HELD:
            if not request.answered and not command.is_oneway:
                request.counted = True
                self.held += 1
        elif not request.answered:
            request.answered = True
            self._deliver(command, reply)
            seconds = self._clock.monotonic() - received
            if seconds > _SLOW_SECONDS:
                self._note_slow(command, seconds)

    def _note_slow(self, command: Command, seconds: float) -> None:
        """A request that did not wait was answered late: the loop, or its handler, was slow."""
        self._dispatcher.count_slow(command.code)
        name = request_name(command.code)
        text = "slow request: %s of %s was answered %.0f ms after it came"
        self._warnings.warn(f"slow {name}", text, name, self.address, seconds * 1000)

    def answer(self, request: Request, reply: Reply) -> None:
        """Deliver the answer of a held request (called by Request.answer, once)."""
        if request.counted:
            self.held -= 1
        if self.closed:
            return
        self._dispatcher.finish(request, reply)
        self._deliver(request.command, reply)

    def _deliver(self, request: Command, reply: Reply) -> None:
        """Write the answer to `request`, unless that is one-way."""
        if request.flag & FLAG_ONEWAY:
            return
        try:
            self._write_answer(reply.to_command(request))
        except Exception as problem:  # a bug of ours, or the answer is too large: the asker must get another one
            _log.error(
                "answer to %s of %s cannot be written: %s",
                request_name(request.code),
                self.address,
                problem,
                exc_info=not isinstance(problem, ProtocolError),
            )
            failed = Reply(ResponseCode.SYSTEM_ERROR, remark="the answer cannot be written, see the server's log")
            self._write_answer(failed.to_command(request))

    def _admit(self, request: Request) -> Reply | None:
        """A reply that refuses the request before it is dispatched, or None."""
        if self.room_to_hold <= 0:
            self._warnings.warn(
                f"{self.remote[0]} held",
                "%s of %s is refused as busy: %d requests of this link are held, that is the limit",
                request_name(request.code),
                self.address,
                self.held,
            )
            refusal = Reply(ResponseCode.SYSTEM_BUSY, remark=_OVERLOAD)
            self._dispatcher.count_refusal(request, refusal)
            return refusal
        return None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.address}{' closed' if self.closed else ''}>"
