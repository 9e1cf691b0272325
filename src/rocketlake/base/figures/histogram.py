"""Counts of values by size class, as Prometheus keeps them.

Owns        the counts and the sum.
Must not know   what is counted, who reads the counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["DURATIONS", "Histogram"]

DURATIONS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper bounds for work that takes from a tenth of a millisecond to seconds, in seconds."""


class Histogram:
    """Counts since the start; a value counts in the first class whose bound it does not exceed."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = DURATIONS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        """By class; the last one has no bound."""
        self.sum = 0.0

    def note(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value
