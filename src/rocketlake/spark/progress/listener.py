"""LagListener: gets the report of every micro-batch of a Spark session and keeps each query's lag.

Owns        the listener, the lags of all queries that reported.
Must not know   how reports become numbers (totals.py), how numbers are shown.

    listener = LagListener(metrics_port=9105)
    spark.streams.addListener(listener)
    ...
    listener.lags()                 # name -> Lag; also at http://127.0.0.1:9105/metrics
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql.streaming.listener import StreamingQueryListener

from rocketlake.base.logs import get_logger
from rocketlake.spark.places.location import Location
from rocketlake.spark.progress.lag import read_report
from rocketlake.spark.progress.losses import lost_messages
from rocketlake.spark.progress.totals import Lag, QueryTotals

__all__ = ["LagListener"]

log = get_logger(__name__)
_QUERIES_MAX = 1000


class LagListener(StreamingQueryListener):
    """For spark.streams.addListener; `metrics_port` serves Prometheus text on this machine only (0: any free port).

    `loss_tables`: query name -> folder of its source's option `lossTable`; what it says is counted as losses.
    """

    def __init__(
        self, *, metrics_port: int | None = None, loss_tables: Mapping[str, str | Location] | None = None
    ) -> None:
        self._loss_tables = dict(loss_tables or {})
        self._lock = threading.Lock()
        self._totals: dict[str, QueryTotals] = {}
        self._metrics = None
        if metrics_port is not None:
            from rocketlake.spark.progress.prometheus import MetricsServer

            self._metrics = MetricsServer(self.lags, metrics_port)

    @property
    def metrics_address(self) -> str:
        """http://127.0.0.1:port/metrics; "" without."""
        return self._metrics.address if self._metrics is not None else ""

    def lags(self) -> dict[str, Lag]:
        """Query name -> its lag now."""
        with self._lock:
            lags = {each.lag.name: each.lag for each in self._totals.values()}
        for name in self._loss_tables.keys() & lags.keys():
            table = self._loss_tables[name]
            losses = lost_messages(table if isinstance(table, Location) else Path(table))
            lags[name] = replace(lags[name], losses=losses)
        return lags

    def close(self) -> None:
        """Stop serving metrics."""
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Spark calls these, on a thread of its own; an exception here would be lost.

    def onQueryStarted(self, event: Any) -> None:
        """A query starts, or starts again: then its totals go on."""
        with self._lock:
            totals = self._of(str(event.id), event.name or str(event.id))
            totals.lag = replace(totals.lag, is_active=True, error="")

    def onQueryProgress(self, event: Any) -> None:
        """A micro-batch is done."""
        self.add(json.loads(event.progress.json))

    def add(self, progress: dict[str, Any]) -> None:
        """Count one progress report, as from `query.recentProgress`."""
        report = read_report(progress)
        with self._lock:
            self._of(report.query, report.name).add(report)

    def onQueryIdle(self, event: Any) -> None:
        """No new messages: nothing to count."""

    def onQueryTerminated(self, event: Any) -> None:
        """A query ended; note the first line of the error, if it failed."""
        with self._lock:
            if str(event.id) in self._totals:
                totals = self._totals[str(event.id)]
                why = (event.exception or "").strip().splitlines()
                totals.lag = replace(totals.lag, is_active=False, rows_per_second=0.0, error=why[0] if why else "")

    def _of(self, query: str, name: str) -> QueryTotals:
        if query not in self._totals:
            if len(self._totals) >= _QUERIES_MAX:
                oldest = next((key for key, each in self._totals.items() if not each.lag.is_active), None)
                self._totals.pop(oldest or next(iter(self._totals)))
            self._totals[query] = QueryTotals(query, name)
        return self._totals[query]
