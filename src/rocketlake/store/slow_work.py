"""Slow work is logged: a slow flush or commit with its cost, long work with how far it is.

Owns        from when on a flush counts as slow, how often a line may come.
Must not know   which bytes are flushed, the work itself.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.base.figures.histogram import Histogram
from rocketlake.base.logs import RareWarnings, get_logger

__all__ = ["Progress", "SlowDisk"]

_log = get_logger(__name__)

_SLOW_SECONDS = 0.5
_PROGRESS_SECONDS = 5.0
_REST_SECONDS = 60.0


class SlowDisk:
    """Notes how long flushes and commits of the log take; those over 500 ms are warnings, one of a kind in 10 s."""

    def __init__(self, clock: Clock) -> None:
        self.seconds = clock.monotonic
        """The clock to measure with, also on a worker's thread."""
        self.durations: dict[str, Histogram] = {}
        """Of flushes and commits since the start, in seconds, by kind."""
        self._warnings = RareWarnings(_log, clock=clock)
        self._rests = RareWarnings(_log, interval_seconds=_REST_SECONDS, clock=clock)

    def note(self, kind: str, seconds: float, size: int, end: int) -> None:
        """A `kind` of work on `size` bytes, which leads up to `end` of the log, took so long."""
        self.durations.setdefault(kind, Histogram()).note(seconds)
        if seconds > _SLOW_SECONDS:
            text = "slow %s: %.0f ms for %d bytes, up to %d of the log"
            self._warnings.warn(kind, text, kind, seconds * 1000, size, end)

    def note_rest(self, size: int, safe: int) -> None:
        """A thorough flush begins, and so many bytes are not on disk yet."""
        if size > 0:
            self._rests.info("rest", "thorough flush: %d bytes to go, the log is on disk up to %d", size, safe)


class Progress:
    """Says every 5 s that a line about long work is due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = self._said = clock.monotonic()
        self.was_due = False
        """True if a line has been due since the start of this work."""

    @property
    def seconds(self) -> float:
        """Since the start of this work."""
        return self._clock.monotonic() - self._began

    def is_due(self) -> bool:
        """True when 5 s have passed since the start or the last True."""
        now = self._clock.monotonic()
        if now - self._said < _PROGRESS_SECONDS:
            return False
        self._said, self.was_due = now, True
        return True
