"""The terms between an asker and a handler: Asker, Request, Reply, HELD.

Owns        the promise that a request is answered at most once, and never when it is one-way; the shape of an asker.
Must not know   connections (link.py), the table of handlers (dispatcher.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

from rocketlake.auth.user import User
from rocketlake.protocol.command import Body, Buffer, Command
from rocketlake.protocol.fields import H, Header


class Held(Enum):
    """The type of HELD."""

    HELD = "held"


HELD: Final = Held.HELD
"""Returned by a handler that will call `request.answer(reply)` later, exactly once."""


@dataclass(slots=True)
class Reply:
    """An answer. `fields` are added to those of `header`; `body` may be a list of slices; they are not copied."""

    code: int = 0
    header: Header | None = None
    body: Body = None
    remark: str | None = None
    fields: dict[str, str] | None = None

    def to_command(self, request: Command) -> Command:
        """The command that answers `request`."""
        return Command.reply(request, self.code, self.header, self.remark, self.body, fields=self.fields)


class Asker(Protocol):
    """The side that sends requests to a handler: a connection.

    Handlers keep askers in tables: an asker is compared by identity and hashed.
    """

    remote: tuple[str, int]
    """Host and port of the asking machine."""
    address: str
    """The same as `host:port`."""
    certificate_name: str
    """Who the peer is by a certificate that was checked; "" without one."""
    user: User | None
    """Who signed the newest request that the gate let in; None on a server that asks nobody."""
    state: dict[str, Any]
    """Notes of the handlers about this asker; they end with it."""
    on_close: list[Callable[[Asker], None]]
    """Called once, when the asker is gone."""
    closed: bool
    held: int
    """Requests of this asker that are held now."""

    @property
    def writable(self) -> bool:
        """False while the asker does not read its answers, and when it is gone."""
        ...

    @property
    def room_to_hold(self) -> int:
        """How many more requests of this asker may be held."""
        ...

    def answer(self, request: Request, reply: Reply) -> None:
        """Deliver the answer of a held request (called by Request.answer, once)."""

    def send(self, command: Command) -> None:
        """Send a one-way request to the asker. Nothing happens if it is gone."""

    async def invoke(self, command: Command, timeout_ms: float = 3000) -> Command:
        """Send a request to the asker and wait for its answer. Raises InvokeTimeout or LinkError."""
        ...

    def close(self) -> None:
        """End the connection with the asker, after its last answers."""


class FrameAsker(Asker, Protocol):
    """An asker that sends and takes whole frames: runs of its requests can be served (dispatcher.py)."""

    def write_answers(self, answers: list[Buffer]) -> None:
        """Write the answers of a run: whole frames. Afterwards the asker may be behind (`writable`)."""

    def abort(self, kind: str, why: str) -> None:
        """End the connection with the asker at once. The log gives the reason `why`."""


class Request:
    """One request of one asker. `received` is the clock's monotonic time of the chunk it came in, in seconds."""

    __slots__ = ("answered", "asker", "command", "counted", "received", "user")

    def __init__(self, command: Command, asker: Asker, received: float) -> None:
        self.command = command
        self.asker = asker
        self.received = received
        self.answered = False
        self.counted = False
        self.user: User | None = None
        """Who signed the request; None on a server that asks nobody."""

    @property
    def code(self) -> int:
        """The request code."""
        return self.command.code

    @property
    def body(self) -> bytes:
        """The body, b"" when there is none."""
        return self.command.body_bytes

    @property
    def address(self) -> str:
        """`ip:port` of the asker."""
        return self.asker.address

    def header(self, cls: type[H]) -> H:
        """The typed header. Raises HeaderError, which the dispatcher turns into an answer."""
        return self.command.header(cls)

    def answer(self, reply: Reply) -> None:
        """Answers a held request. Does nothing a second time, for a one-way request, or when the asker is gone."""
        if not self.answered:
            self.answered = True
            self.asker.answer(self, reply)


Handler: TypeAlias = Callable[[Request], Reply | Held]
"""Serves a request at once, without blocking, or holds it."""
