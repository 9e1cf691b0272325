"""How many bytes one slave may be sent now.

Owns        the limit of bytes a second.
Must not know   frames, connections.
"""

from __future__ import annotations

__all__ = ["Allowance"]

_SLICES = 10
"""A second's bytes are given out in so many parts: a slave gets a steady stream, not a burst a second."""


class Allowance:
    """Bytes a second; 0: no limit. A frame may overdraw it, the next one waits the longer."""

    def __init__(self, bytes_per_second: int) -> None:
        self._rate = bytes_per_second
        self._left = 0.0
        self._filled_at = float("-inf")

    def pause(self, now: float) -> float:
        """Seconds until something may be sent; 0: now."""
        if not self._rate:
            return 0.0
        most = self._rate / _SLICES
        if now > self._filled_at:
            self._left = min(most, self._left + (now - self._filled_at) * self._rate)
            self._filled_at = now
        return 0.0 if self._left > 0 else max(1 / _SLICES, -self._left / self._rate)

    def spend(self, size: int) -> None:
        """So many bytes were sent."""
        self._left -= size
