"""What a handler gets and gives: Request, Reply, HELD.

Owns        the promise that a request is answered at most once, and never when it is one-way.
Must not know   sockets (link.py), which handler serves what (dispatcher.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from rocketlake.protocol.command import Body, Command
from rocketlake.protocol.fields import H, Header

if TYPE_CHECKING:
    from rocketlake.net.link import Link


class Held(Enum):
    """The type of HELD."""

    HELD = "held"


HELD: Final = Held.HELD
"""Returned by a handler that will call `request.answer(reply)` later, exactly once."""


@dataclass(slots=True)
class Reply:
    """An answer. `fields` are added to those of `header`; `body` may be a list of slices that are never copied here."""

    code: int = 0
    header: Header | None = None
    body: Body = None
    remark: str | None = None
    fields: dict[str, str] | None = None

    def to_command(self, request: Command) -> Command:
        """The command that answers `request`."""
        return Command.reply(request, self.code, self.header, self.remark, self.body, fields=self.fields)


class Request:
    """One request on one link. `received` is the clock's monotonic time of the chunk it came in, in seconds."""

    __slots__ = ("answered", "command", "counted", "link", "received")

    def __init__(self, command: Command, link: Link, received: float) -> None:
        self.command = command
        self.link = link
        self.received = received
        self.answered = False
        self.counted = False

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
        return self.link.address

    def header(self, cls: type[H]) -> H:
        """The typed header. Raises HeaderError, which the dispatcher turns into an answer."""
        return self.command.header(cls)

    def answer(self, reply: Reply) -> None:
        """Answers a held request. A second call, a closed link or a one-way request make it do nothing."""
        if not self.answered:
            self.answered = True
            self.link.answer(self, reply)


Handler: TypeAlias = Callable[[Request], Reply | Held]
"""Serves a request at once, without blocking, or holds it."""
