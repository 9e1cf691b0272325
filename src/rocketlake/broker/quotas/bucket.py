"""A token bucket: what may pass in a second, and what did.

Owns        the tokens, the debt, the measure.
Must not know   what is counted, who is told.

A bucket holds what may pass in a second. It is looked at before a request, or before a run of them, and pays behind it:
then the size is known. So it may be overdrawn by the last run; the debt is waited for. In the mean no more passes than
the rate.
"""

from __future__ import annotations

__all__ = ["Bucket"]

_LEAST_SECONDS = 0.01


class Bucket:
    """Tokens of one kind, for one user or topic."""

    __slots__ = ("_at", "_before", "_left", "_second", "_spent", "rate")

    def __init__(self, rate: int) -> None:
        """`rate`: most a second."""
        self.rate = rate
        self._left = float(rate)
        self._at = 0.0
        self._second = 0
        self._spent = self._before = 0
        """What passed in this second, and in the one before."""

    def wait(self, now: float) -> float:
        """Seconds until something may pass; 0: now. `now`: of the monotonic clock."""
        self._fill(now)
        return 0.0 if self._left > 0 else max(_LEAST_SECONDS, -self._left / self.rate)

    def spend(self, count: int, now: float) -> None:
        """So much has passed."""
        self._fill(now)
        self._left -= count
        self._turn(now)
        self._spent += count

    def measured(self, now: float) -> int:
        """What passed in this second or the one before, whichever was more."""
        self._turn(now)
        return max(self._spent, self._before)

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._left = min(self.rate, self._left + (now - self._at) * self.rate)
            self._at = now

    def _turn(self, now: float) -> None:
        second = int(now)
        if second != self._second:
            self._before = self._spent if second == self._second + 1 else 0
            self._second, self._spent = second, 0
