"""How long what was appended has waited for an ack.

Owns        marks: where the log ended at which look.
Must not know   who acknowledges (sync_state_set.py), what follows from a long wait.
"""

from __future__ import annotations

from collections import deque

from rocketlake.model.positions import PhysicalOffset

__all__ = ["AckAge"]

_MARKS_MAX = 256
"""While the oldest byte waits, so many looks are remembered; then no new ones, and later bytes seem younger."""


class AckAge:
    """Of one log; exact to the time between two looks. `now` in seconds of one clock."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, PhysicalOffset]] = deque()

    def look(self, now: float, log_end: PhysicalOffset, acked: PhysicalOffset) -> None:
        """The log ends there now; `acked`: up to where it is acknowledged."""
        marks = self._marks
        while marks and marks[0][1] <= acked:
            marks.popleft()
        newest = marks[-1][1] if marks else acked
        if log_end > newest and len(marks) < _MARKS_MAX:
            marks.append((now, log_end))

    def seconds(self, now: float, acked: PhysicalOffset) -> float:
        """How long the oldest byte behind `acked` has waited; 0 if none does."""
        return next((now - at for at, end in self._marks if end > acked), 0.0)

    def end_of(self, seconds: float, now: float) -> PhysicalOffset | None:
        """Up to where all that is not acknowledged has waited for longer; None: nothing has."""
        return max((end for at, end in self._marks if now - at > seconds), default=None)
