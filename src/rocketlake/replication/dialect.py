"""A dialect: which bytes say what on one connection between a master and a slave, and what comes before records.

Owns        the seam between dialects and the two ends (leader.py, follower.py), and the values that cross it.
Must not know   sockets, the store, any one dialect.

RocketMQ has two: the classic one (classic.py) and AutoSwitch, with a handshake and epochs. One object serves one
connection. It is fed any cuts of the byte stream and raises ProtocolError for bytes that cannot be accepted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rocketlake.model.positions import PhysicalOffset

__all__ = ["Agreement", "Answer", "FollowerDialect", "LeaderDialect", "LogRange", "Piece", "Report"]


class LogRange(NamedTuple):
    """The log as it is now."""

    start: PhysicalOffset
    """Its first byte that is still there."""
    last_file: PhysicalOffset
    """Where its last file starts."""
    end: PhysicalOffset
    """Behind its last byte."""


# -- the leader's end --------------------------------------------------------------------------------------------------


class Report(NamedTuple):
    """The slave has the log up to `end`. The first report also says from where on it wants it."""

    end: PhysicalOffset


class Answer(NamedTuple):
    """Bytes to send back now: of a handshake."""

    data: bytes


class LeaderDialect(Protocol):
    """One connection of a slave, seen from its master."""

    name: str
    """The replica: acks are counted by it. "" until it is known; connections of one name are one replica."""
    counts: bool
    """False for a slave whose reports are no acks: a learner."""

    def feed(self, data: bytes) -> Iterable[Report | Answer]:
        """What the slave says."""

    def start(self, report: PhysicalOffset, log: LogRange) -> PhysicalOffset | None:
        """Where to begin after the first report; None: not now, it is asked again later."""

    def frame_end(self, offset: PhysicalOffset) -> PhysicalOffset | None:
        """A frame that begins at `offset` must end there at the latest; None: no limit."""

    def header(self, offset: PhysicalOffset, size: int) -> bytes:
        """The bytes before `size` bytes of the log at `offset`; size 0: a heartbeat."""


# -- the follower's end ------------------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """Bytes of the log. A frame comes in one piece or several; a heartbeat is a piece without bytes."""

    offset: PhysicalOffset
    data: bytes | memoryview
    confirm: PhysicalOffset | None = None
    """Up to here the leader counts its log as confirmed."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Something to settle before any more bytes are looked at: truncation after a handshake, an epoch that begins.

    A new epoch begins between two records.
    """

    settle: Callable[[], Awaitable[bytes]]
    """Gives the bytes to send then. Raises RocketLakeError: the connection ends, and the reason is told."""


class FollowerDialect(Protocol):
    """One connection to a master, seen from its slave."""

    def hello(self, end: PhysicalOffset) -> bytes:
        """The first bytes of the connection; `end` is where the own log ends."""

    def feed(self, data: bytes) -> Iterable[Piece | Agreement]:
        """What the master sends. The iterable is stopped at an agreement and goes on when it is settled."""

    def report(self, end: PhysicalOffset) -> bytes:
        """The own log ends at `end` now. Empty: the master is not to be told yet."""

    def appended(self, end: PhysicalOffset, confirm: PhysicalOffset | None) -> None:
        """The own log ends at `end`; `confirm` is that of the last piece."""
