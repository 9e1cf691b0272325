"""Lags as Prometheus metrics, on this machine only.

Owns        metric names, the little HTTP server.
Must not know   how lags are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rocketlake.base.errors import UsageError
from rocketlake.spark.progress.totals import Lag

__all__ = ["METRICS", "MetricsServer"]

Value = Callable[[Lag], float | None]

METRICS: dict[str, tuple[str, Value]] = {
    "min_offsets_behind_latest": ("messages behind in the queue that is furthest", lambda lag: lag.min_behind),
    "max_offsets_behind_latest": ("messages behind in the queue that is last", lambda lag: lag.max_behind),
    "avg_offsets_behind_latest": ("messages behind per queue", lambda lag: lag.avg_behind),
    "total_offsets_behind_latest": ("messages behind in all queues", lambda lag: lag.total_behind),
    "seconds_behind_latest": ("age of the newest message read, 0 when none is waiting", lambda lag: lag.seconds_behind),
    "bytes_behind_latest": ("body bytes behind, estimated from the last batch", lambda lag: lag.bytes_behind),
    "seconds_to_latest": ("time until none is waiting, at the speed of now", lambda lag: lag.seconds_left),
    "rows_per_second": ("rows read a second while a batch runs", lambda lag: lag.rows_per_second),
    "batch_seconds": ("duration of the last micro-batch", lambda lag: lag.batch_ms / 1000),
    "active": ("1 while the query runs", lambda lag: float(lag.is_active)),
    "batches_total": ("micro-batches with rows", lambda lag: lag.batches),
    "rows_total": ("rows read", lambda lag: lag.rows),
    "bad_rows_total": ("rows whose body could not be read", lambda lag: lag.bad_rows),
    "lost_messages_total": ("messages that were gone before they were read", lambda lag: lag.losses),
}
"""Name after `rocketlake_query_` -> (meaning, value)."""


class _Lags(Collector):
    def __init__(self, lags: Callable[[], Mapping[str, Lag]]) -> None:
        self._lags = lags

    def collect(self) -> Iterator[Metric]:
        lags = self._lags()
        for name, (meaning, value) in METRICS.items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(f"rocketlake_query_{name}", meaning, labels=["query"])
            for query, lag in lags.items():
                number = value(lag)
                if number is not None:
                    family.add_metric([query], number)
            yield family


class MetricsServer:
    """Serves the lags at http://127.0.0.1:port/metrics until closed."""

    def __init__(self, lags: Callable[[], Mapping[str, Lag]], port: int) -> None:
        registry = CollectorRegistry()
        registry.register(_Lags(lags))
        try:
            self._server, self._thread = start_http_server(port, addr="127.0.0.1", registry=registry)
        except OSError as error:
            raise UsageError(
                f"metrics cannot be served on port {port}: {error.strerror}",
                hint="give another port; 0 takes a free one",
            ) from error
        self.address = f"http://127.0.0.1:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
