"""How long puts took. RocketMQ's operators know the figures as PAGECACHERT and putLatency99.

Owns        the counts by duration, of this minute and the last.
Must not know   senders, the store.

A run of puts counts with one measurement: its messages are stored by one write. With SYNC_FLUSH a put takes until it
may be acknowledged, with ASYNC_FLUSH until it is in the log.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from math import inf

from rocketlake.base.figures.histogram import DURATIONS, Histogram

__all__ = ["PutLatency"]

# Apache's classes, and finer ones for percentiles: each limit is a quarter above the one before.
_CLASSES_MS = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
_CLASS_NAMES = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]", "[1~2s]", "[2~3s]",
    "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip
_FINE_MS = tuple(0.01 * 1.25**step for step in range(64))
_LIMITS_MS = tuple(sorted({*_CLASSES_MS, *_FINE_MS, *(bound * 1000 for bound in DURATIONS)}))
"""Limits of all kinds. Each put is counted once, between two of them."""


class PutLatency:
    """Counts of puts by duration."""

    def __init__(self) -> None:
        self.max_ms = 0.0
        """The longest since the start."""
        self._now = [0] * (len(_LIMITS_MS) + 1)
        self._last = self._now.copy()
        self._before = self._now.copy()
        """Counts of all minutes before the last."""

    def note(self, seconds: float, count: int = 1) -> None:
        """`count` messages were put together and took `seconds`."""
        ms = seconds * 1000
        if ms > self.max_ms:
            self.max_ms = ms
        self._now[bisect_left(_LIMITS_MS, ms)] += count

    def roll(self) -> None:
        """A minute is over."""
        self._before = [before + last for before, last in zip(self._before, self._last, strict=True)]
        self._last, self._now = self._now, [0] * len(self._now)

    def histogram(self) -> Histogram:
        """Counts since the start, in Prometheus' classes. The sum is taken from the middles of the finer classes."""
        found = Histogram()
        before = 0.0
        for limit, *counts in zip((*_LIMITS_MS, _LIMITS_MS[-1]), self._before, self._last, self._now, strict=True):
            count = sum(counts)
            found.counts[bisect_left(found.bounds, limit / 1000 * (1 - 1e-9))] += count
            found.sum += count * (before + limit) / 2000
            before = limit
        return found

    def percentile_ms(self, share: float) -> float:
        """The duration that a `share` of the puts of the last one to two minutes did not exceed; 0 without puts."""
        counts = self._counts(_FINE_MS)
        total = sum(counts)
        sums = list(accumulate(counts))
        return _FINE_MS[min(bisect_left(sums, total * share), len(_FINE_MS) - 1)] if total else 0.0

    def to_text(self) -> str:
        """Counts by class, as Apache writes them: "[<=0ms]:12 [0~10ms]:3 ..."."""
        counts = self._counts(_CLASSES_MS)
        return " ".join(f"{name}:{count}" for name, count in zip(_CLASS_NAMES, counts, strict=True))

    def _counts(self, limits_ms: tuple[float, ...]) -> list[int]:
        """Puts of the last one to two minutes up to each of these limits, and above them all."""
        counts = [0] * (len(limits_ms) + 1)
        for limit, last, now in zip((*_LIMITS_MS, inf), self._last, self._now, strict=True):
            counts[bisect_left(limits_ms, limit)] += last + now
        return counts
