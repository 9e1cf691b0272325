"""Engine: what a link needs of an HTTP/2 library. Another library than ngh2 takes its place behind this seam.

Owns        the seam, the settings that we tell the peer, the limits that the library holds.
Must not know   sockets (link.py), gRPC (call.py).

The library (libnghttp2, by way of ngh2) bounds what an attacker may make it do: resets (CVE-2023-44487), CONTINUATION
frames (CVE-2024-27316), acknowledgements of PING and SETTINGS, the decoded list of headers, frames that do nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol, TypeAlias

from rocketlake.base.errors import LinkError

__all__ = ["NO_ERROR", "Engine", "EngineFailed", "Headers", "Streams"]

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

NO_ERROR: Final = 0
"""The code of a RESET that says: I need no more of this stream."""


class EngineFailed(LinkError):
    """The peer broke a rule of HTTP/2, or did too much of what costs us work. The connection is of no use any more."""


class Streams(Protocol):
    """What an engine tells of the streams that the peer opens."""

    def opened(self, stream: int, headers: tuple[tuple[bytes, bytes], ...], ended: bool) -> None:
        """A request begins; `ended`: it has no body."""

    def received(self, stream: int, data: bytes, ended: bool) -> None:
        """A part of its body; `ended`: the last one."""

    def lost(self, stream: int) -> None:
        """The stream is closed: by the peer's reset, or as both sides have ended it."""


class Engine(Protocol):
    """One connection, without its socket. Calls about a stream that is closed do nothing."""

    def receive(self, data: bytes) -> None:
        """Take bytes of the peer; the streams are told. Raises EngineFailed."""

    def respond(self, stream: int, headers: Headers, *, ended: bool = False) -> None:
        """Begin the answer; `ended`: it is whole."""

    def answer(self, stream: int, headers: Headers, data: bytes, trailers: Headers) -> None:
        """A whole answer: `respond`, `write` and `trailers` in one."""

    def write(self, stream: int, data: bytes) -> None:
        """A part of the answer. It waits here while the peer's windows are full."""

    def trailers(self, stream: int, headers: Headers) -> None:
        """End the answer with these headers."""

    def reset(self, stream: int, code: int) -> None:
        """End the stream in both directions, behind what was written."""

    def taken(self, stream: int, size: int) -> None:
        """Allow the peer to send as many bytes more."""

    def go_away(self, *, final: bool) -> None:
        """Tell the peer to open no more streams; `final`: now, otherwise those on their way are still served."""

    def ping(self) -> None:
        """Ask the peer for a sign of life; its answer is a byte received like any other."""

    def unsent(self) -> int:
        """Bytes of answers that wait for the peer's windows."""

    def out(self, size: int) -> bytes:
        """The next bytes for the peer, about `size` at most; b"" when there are none now."""

    @property
    def is_over(self) -> bool:
        """True when neither side has anything left to say."""
        ...
