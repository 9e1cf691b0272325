"""When a master that takes no messages gives way to a replica that may.

Owns        how long a refusal of the store is borne, how soon a second try follows.
Must not know   why the store refuses, how a master hands over (member.py).

A disk that is full, or that failed, is the loss of one machine: the group goes on without it. A replica whose own disk
takes nothing is not in step, so it is not the one that takes over.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import Clock

__all__ = ["GivingWay"]

_PATIENCE_SECONDS = 0.6
_AGAIN_SECONDS = 20.0


class GivingWay:
    """Looked at while this broker is the master."""

    def __init__(self, refusal: Callable[[], str], clock: Clock) -> None:
        """`refusal`: why the store takes no messages, "" while it does."""
        self._refusal = refusal
        self._clock = clock
        self._since: float | None = None
        self._not_before = 0.0

    def look(self) -> str:
        """Why this broker has to hand over now; "" if it has not to."""
        now, refusal = self._clock.monotonic(), self._refusal()
        if not refusal:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= _PATIENCE_SECONDS and now >= self._not_before:
            self._not_before = now + _AGAIN_SECONDS
            return refusal
        return ""
