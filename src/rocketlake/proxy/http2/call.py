"""Call: one gRPC call, as its method sees it.

Owns        what is known of the caller, the promise that a call ends once, the order head - messages - outcome.
Must not know   connections (link.py), what the messages say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from rocketlake.base.callbacks import call_each
from rocketlake.proxy.http2.engine import Headers
from rocketlake.proxy.http2.framing import CallFailed, GrpcStatus, MessageReader, frame, outcome

__all__ = ["Call", "CallLink", "Method", "Methods"]

_HEAD: Final = ((b":status", b"200"), (b"content-type", b"application/grpc"))
_OK: Final = tuple(outcome(GrpcStatus.OK))


class CallLink(Protocol):
    """The connection of a call, as the call sees it."""

    remote: tuple[str, int]
    address: str
    local: tuple[str, int]
    """The address that the peer has connected to."""
    is_encrypted: bool
    certificate_name: str

    def respond(self, call: Call, headers: Headers, *, ended: bool = False) -> None:
        """Begin the answer."""

    def answer(self, call: Call, headers: Headers, data: bytes, trailers: Headers) -> None:
        """The whole answer."""

    def write(self, call: Call, data: bytes) -> None:
        """A part of the answer."""

    def end(self, call: Call, trailers: Headers) -> None:
        """The answer is whole."""

    def served(self, call: Call, size: int) -> None:
        """So many bytes of the request are needed no more."""

    def over(self, call: Call) -> None:
        """The call is answered, or nobody waits for its answer any more."""


@dataclass(frozen=True, slots=True)
class Method:
    """What serves the calls of one method."""

    serve: Callable[[Call, bytes], object]
    """Called with a message of the caller: the only one, when it has come whole, or of a stream each as it comes.

    It answers now or later. What it raises ends the call.
    """
    takes_stream: bool = False
    ended: dict[str, int] = field(default_factory=dict)
    """Calls that are over, by how."""


Methods = dict[bytes, Method]
"""By path."""


class Call:
    """One call. `write` and `end` do nothing when it is over: the caller has gone, or its deadline has passed."""

    __slots__ = (
        "_is_begun",
        "deadline",
        "has_sent_all",
        "headers",
        "held_bytes",
        "is_draining",
        "is_over",
        "link",
        "message",
        "method",
        "on_drain",
        "on_over",
        "reader",
        "refusal",
        "stream",
    )

    def __init__(
        self, link: CallLink, stream: int, headers: dict[bytes, bytes], method: Method, deadline: float | None
    ) -> None:
        """`deadline`: monotonic seconds; None: the caller gave none."""
        self.link = link
        self.stream = stream
        self.method = method
        self.headers = headers
        self.deadline = deadline
        self.reader: MessageReader | None = None
        """Puts messages together that come in parts; None while none came."""
        self.held_bytes = 0
        """Of the request, in memory until it is served."""
        self.has_sent_all = False
        """True when the caller has ended its side."""
        self.message: bytes | None = None
        """The message of a call that has one only, if it comes before the caller has ended its side."""
        self.is_over = False
        self.refusal = ""
        """The name of RocketMQ's code in the answer, if it refuses."""
        self.on_over: list[Callable[[Call], object]] = []
        """Called once: the call is answered, or nobody waits for its answer any more."""
        self.is_draining = False
        """The server stops: the call does not wait for anything any more."""
        self.on_drain: list[Callable[[Call], object]] = []
        """Called then."""
        self._is_begun = False

    @property
    def is_inside(self) -> bool:
        """True when a message is begun and not whole."""
        return self.reader is not None and self.reader.begun_bytes > 0

    def header(self, name: str) -> str:
        """A header of the caller by its name in lower case, "" without it; the last of equal names wins."""
        return self.headers.get(name.encode("latin-1"), b"").decode("utf-8", "replace")

    def write(self, message: bytes) -> None:
        """Send a message of the answer."""
        if self.is_over:
            return
        if not self._is_begun:
            self._is_begun = True
            self.link.respond(self, _HEAD)
        self.link.write(self, frame(message))

    def end(self, status: GrpcStatus = GrpcStatus.OK, text: str = "") -> None:
        """Send the outcome."""
        if self.is_over:
            return
        if self._is_begun:
            self.link.end(self, outcome(status, text))
        else:
            self.link.respond(self, (*_HEAD, *outcome(status, text)), ended=True)
        self.close(status)

    def answer(self, *messages: bytes) -> None:
        """Send the whole answer, of a call that has sent nothing yet, and the outcome."""
        if not self.is_over:
            data = frame(messages[0]) if len(messages) == 1 else b"".join([frame(message) for message in messages])
            self.link.answer(self, _HEAD, data, _OK)
            self.close(GrpcStatus.OK)

    def fail(self, error: CallFailed) -> None:
        """End it with this error."""
        self.end(error.status, error.text)

    def close(self, status: GrpcStatus = GrpcStatus.CANCELLED) -> None:
        """It is over: nothing is sent any more."""
        if not self.is_over:
            self.is_over = True
            how, ended = self.refusal or status.name, self.method.ended
            ended[how] = ended.get(how, 0) + 1
            self.message = None
            self.link.over(self)
            if self.on_over:
                callbacks, self.on_over = self.on_over, []
                call_each(callbacks, self)

    def drain(self) -> None:
        """The server stops."""
        self.is_draining = True
        call_each(self.on_drain, self)

    def served(self, size: int) -> None:
        """So many bytes of a stream, its messages up to here, are needed no more."""
        self.link.served(self, size)
