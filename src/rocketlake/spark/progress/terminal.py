"""Progress of queries in a terminal: a table that is drawn anew, or lines where output is no terminal.

Owns        the look of progress.
Must not know   how lags are computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from rocketlake.spark.progress.totals import Lag

__all__ = ["ProgressView", "duration", "lag_line"]

_COLUMNS = ("query", "rows", "rows/s", "behind", "time behind", "bad rows", "batch", "left")


class ProgressView:
    """`with ProgressView(console) as view:` then view.show(lags) now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else None
        self._shown: dict[str, str] = {}

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, lags: Mapping[str, Lag]) -> None:
        """Show the newest numbers; without a terminal, one line for each query whose numbers changed."""
        if self._live is not None:
            self._live.update(_table(lags), refresh=True)
            return
        for name, lag in lags.items():
            line = lag_line(lag)
            if lag.batches and self._shown.get(name) != line:
                self._shown[name] = line
                self._console.print(line, markup=False)


def _table(lags: Mapping[str, Lag]) -> Table:
    table = Table(*_COLUMNS, box=None, pad_edge=False, header_style="bold")
    for column in table.columns[1:]:
        column.justify = "right"
    for lag in lags.values():
        table.add_row(*_cells(lag), style="" if lag.is_active else "dim")
    return table


def _cells(lag: Lag) -> list[str]:
    return [
        lag.name,
        f"{lag.rows:,}",
        f"{lag.rows_per_second:,.0f}",
        f"{lag.total_behind:,}",
        duration(lag.seconds_behind),
        f"{lag.bad_rows:,}",
        f"{lag.batch_ms:,} ms",
        "-" if lag.seconds_left is None else duration(lag.seconds_left),
    ]


def lag_line(lag: Lag) -> str:
    """One line of progress."""
    cells = dict(zip(_COLUMNS[1:], _cells(lag)[1:], strict=True))
    return f"{lag.name}: " + ", ".join(f"{name} {value}" for name, value in cells.items())


def duration(seconds: float) -> str:
    """Seconds for a reader: 0.4 s, 12 s, 3 m 20 s, 2 h 5 m, 3 d 4 h."""
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds else "0 s"
    whole = round(seconds)
    for size, big, small, part in ((86_400, "d", "h", 3600), (3600, "h", "m", 60), (60, "m", "s", 1)):
        if whole >= size:
            return f"{whole // size} {big} {whole % size // part} {small}"
    return f"{whole} s"
