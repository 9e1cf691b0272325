"""How long the disk rests between reads of old records, so that a consumer that is far behind does not slow sends.

Owns        the share of the loop's time that such consumers get while messages come in; whether one reads just now.
Must not know   the records that are read, the consumers.

Each read from disk makes work for the loop: the pulls that waited for it are answered, and the next pulls find their
records in memory. While messages are appended, this work gets a part of the loop's time, even with a fast disk. While
no messages are appended, it gets the whole loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rocketlake.base.clock import Clock
from rocketlake.net.turns import Turns

__all__ = ["ColdRest"]

_REST = 5.0
"""Rest 5 times as long as the loop worked for the last read: cold readers get at most 1/6 of the loop."""
_SECONDS_MAX = 0.03
_RECENT_SECONDS = 0.1
"""Longer than a rest, so that a consumer counts as reading between two reads of its own."""


class ColdRest:
    """Called after each read of old records; the result is how long the disk rests then."""

    def __init__(self, turns: Turns, stored: Callable[[], int], clock: Clock) -> None:
        """`stored`: the messages that were stored since the start."""
        self._clock = clock
        self._read_at = -math.inf
        self._turns = turns
        self._stored = stored
        self._busy = 0.0
        self._seen = 0

    def __call__(self) -> float:
        """Seconds to rest now."""
        self._read_at = self._clock.monotonic()
        work, self._busy = self._turns.busy_seconds - self._busy, self._turns.busy_seconds
        before, self._seen = self._seen, self._stored()
        return min(work * _REST, _SECONDS_MAX) if self._seen > before else 0.0

    @property
    def is_recent(self) -> bool:
        """True if a read ended just now: the pull that waited for it is still being answered."""
        return self._clock.monotonic() - self._read_at < _RECENT_SECONDS
