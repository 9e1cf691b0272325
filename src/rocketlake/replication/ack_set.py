"""Which bytes count as replicated: the classic rule, by the number of replicas that have them.

Owns        the ack of each replica, the end that enough of them have, whether there are enough replicas at all.
Must not know   connections, frames, what waits for an ack (store/durability.py).

A replica is known by its name, in the classic stream its host. Two connections of one host are one replica: an old one
that is not noticed to be dead would count a message twice. Its ack is the newest connection's (leader.py).

While too few replicas follow closely, for longer than an ack would wait, acks do not wait at all: senders are told
SLAVE_NOT_AVAILABLE at once, and a broker whose slave is gone does not stand still.
"""

from __future__ import annotations

from typing import Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.logs import get_logger
from rocketlake.model.positions import PhysicalOffset
from rocketlake.store.durability import Durability, Stage

__all__ = ["AckRule", "AckSet"]

_log = get_logger(__name__)


class AckRule(Protocol):
    """Who decides what counts as replicated. All calls come on the loop."""

    def reported(self, name: str, end: PhysicalOffset) -> None:
        """The replica `name` has the log up to `end`."""

    def left(self, name: str) -> None:
        """No connection of this replica is left."""

    def look(self, log_end: PhysicalOffset) -> None:
        """Called a few times a second."""


class AckSet:
    """The classic rule: `replicas` of them, beside the master, have the bytes."""

    def __init__(
        self, durability: Durability, clock: Clock, *, replicas: int, gap_bytes_max: int, patience_seconds: float
    ) -> None:
        """`replicas`: 0 asks for none. `gap_bytes_max`: one that lacks more is not counted as following closely."""
        self.acks: dict[str, PhysicalOffset] = {}
        self._durability = durability
        self._clock = clock
        self._replicas = replicas
        self._gap_bytes_max = gap_bytes_max
        self._patience_seconds = patience_seconds
        self._short_since: float | None = None
        self._gave_up = False

    def begin(self) -> None:
        """This broker leads from now on: replicas get the usual time to come."""
        self._short_since = None
        if self._gave_up:
            self._gave_up = False
            self._durability.mend(Stage.REPLICATED)

    def reported(self, name: str, end: PhysicalOffset) -> None:
        """Take the ack, and release what it completes."""
        self.acks[name] = end
        needed = self._replicas
        if needed and len(self.acks) >= needed:
            self._durability.advance(Stage.REPLICATED, sorted(self.acks.values())[-needed])

    def left(self, name: str) -> None:
        """Its ack counts no more."""
        self.acks.pop(name, None)

    def close_followers(self, log_end: PhysicalOffset) -> int:
        """How many replicas lack no more than haMaxGapNotInSync."""
        return sum(log_end - ack <= self._gap_bytes_max for ack in self.acks.values())

    def look(self, log_end: PhysicalOffset) -> None:
        """Give up, or take up again, to wait for replicas."""
        if not self._replicas:
            return
        now = self._clock.monotonic()
        if self.close_followers(log_end) >= self._replicas:
            if self._gave_up:
                _log.warning("enough slaves follow again: sends wait for them")
            self.begin()
        elif self._short_since is None:
            self._short_since = now
        elif not self._gave_up and now - self._short_since >= self._patience_seconds:
            self._gave_up = True
            self._durability.fail(Stage.REPLICATED)
            _log.error(
                "%d of %d slaves follow closely (inSyncReplicas, haMaxGapNotInSync): sends are answered"
                " SLAVE_NOT_AVAILABLE at once, they are stored on this broker only",
                self.close_followers(log_end),
                self._replicas,
            )
