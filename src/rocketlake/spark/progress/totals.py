"""Reports of one query, one after the other -> its totals, rates, time behind and time left.

Owns        the state between micro-batches: totals, the times at which offsets were the newest, speed.
Must not know   Spark, how numbers are shown.

Time behind is exact when the query observes store times (pipelines do). For other queries it comes from the history of
the newest offsets: the query is behind by the time since the offset that it reached was the newest one. If that was
before the history began, the query is at least as far behind as the history is long.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from rocketlake.spark.progress.lag import Report, behind_latest

__all__ = ["Lag", "QueryTotals"]

_HISTORY = 512
_SMOOTHING = 0.3


@dataclass(frozen=True)
class Lag:
    """The numbers of one query. `losses`: messages that were gone before they were read."""

    query: str
    name: str
    batches: int = 0
    rows: int = 0
    bad_rows: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    min_behind: int = 0
    max_behind: int = 0
    avg_behind: float = 0.0
    total_behind: int = 0
    seconds_behind: float = 0.0
    bytes_behind: int | None = None
    seconds_left: float | None = None
    losses: int = 0
    is_active: bool = True
    error: str = ""


class QueryTotals:
    """One query over time."""

    def __init__(self, query: str, name: str) -> None:
        self.lag = Lag(query, name)
        self._last_batch: tuple[str, int] = ("", -1)
        self._speed = 0.0
        self._arrivals = 0.0
        self._history: deque[tuple[int, int]] = deque(maxlen=_HISTORY)
        self._bytes_per_row = 0.0

    def add(self, report: Report) -> Lag:
        """Count one report; an idle one, or one of a batch seen before, changes nothing."""
        run, batch = self._last_batch
        if report.run == run and report.batch <= batch and report.rows:
            return self.lag
        is_new = report.rows > 0
        if is_new:
            self._last_batch = (report.run, report.batch)
        ends_at = report.began_ms + report.batch_ms
        self._measure_speed(report)
        behind = behind_latest(report.end, report.latest)
        total = sum(behind.values())
        old = self.lag
        self.lag = Lag(
            query=old.query,
            name=report.name,
            batches=old.batches + is_new,
            rows=old.rows + (report.rows if is_new else 0),
            bad_rows=old.bad_rows + (report.bad if is_new else 0),
            rows_per_second=self._speed,
            batch_ms=report.batch_ms,
            min_behind=min(behind.values(), default=0),
            max_behind=max(behind.values(), default=0),
            avg_behind=total / len(behind) if behind else 0.0,
            total_behind=total,
            seconds_behind=self._seconds_behind(report, total, ends_at),
            bytes_behind=round(total * self._bytes_per_row) if self._bytes_per_row else None,
            seconds_left=self._seconds_left(total),
            losses=old.losses,
        )
        return self.lag

    def _measure_speed(self, report: Report) -> None:
        if report.rows and report.batch_ms > 0:
            now = report.rows / (report.batch_ms / 1000)
            self._speed = now if not self._speed else self._speed + _SMOOTHING * (now - self._speed)
        if report.observed_rows and report.observed_bytes:
            self._bytes_per_row = report.observed_bytes / report.observed_rows
        newest = sum(report.latest.values())
        if report.began_ms < 0 or not report.latest:
            return
        if self._history and report.began_ms > self._history[-1][0]:
            seconds = (report.began_ms - self._history[-1][0]) / 1000
            now = max(0, newest - self._history[-1][1]) / seconds
            self._arrivals += _SMOOTHING * (now - self._arrivals)
        if not self._history or report.began_ms > self._history[-1][0]:
            self._history.append((report.began_ms, newest))

    def _seconds_behind(self, report: Report, total: int, now_ms: int) -> float:
        if not total:
            return 0.0
        if report.newest_ms > 0:
            return max(0, now_ms - report.newest_ms) / 1000
        reached = sum(report.latest.values()) - total
        return max(0, now_ms - self._newest_at(reached, now_ms)) / 1000

    def _newest_at(self, reached: int, now_ms: int) -> int:
        """When the newest offsets added up to `reached`, between two samples by their slope."""
        later = (now_ms, 0)
        for at_ms, newest in reversed(self._history):
            if newest <= reached:
                span = later[1] - newest
                return at_ms + round((later[0] - at_ms) * (reached - newest) / span) if span > 0 else at_ms
            later = (at_ms, newest)
        return later[0]

    def _seconds_left(self, total: int) -> float | None:
        """Time until no message is behind, at the present speed; None when more messages come than are read."""
        if not total:
            return 0.0
        gain = self._speed - self._arrivals
        return total / gain if gain > 0 else None
