"""The listener's table of queries, as Prometheus text and in a terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
from rich.console import Console

from rocketlake.base.errors import UsageError
from rocketlake.spark.progress import LagListener
from rocketlake.spark.progress.prometheus import METRICS
from rocketlake.spark.progress.terminal import ProgressView, duration


def event(**values: Any) -> SimpleNamespace:
    return SimpleNamespace(**values)


def progress(batch: int, rows: int, end: int, latest: int) -> dict[str, Any]:
    return {
        "id": "q", "runId": "r", "name": "orders", "timestamp": "2026-11-21T23:40:10.000Z", "batchId": batch,
        "numInputRows": rows, "durationMs": {"triggerExecution": 500},
        "sources": [{"endOffset": {"T": {"b": {"0": end}}}, "latestOffset": {"T": {"b": {"0": latest}}}}],
        "observedMetrics": {"rocketlake": {"rows": rows, "bad": 1, "bytes": rows * 10, "newest_ms": 1}},
    }  # fmt: skip


def test_a_query_from_start_to_end() -> None:
    listener = LagListener()
    listener.onQueryStarted(event(id="q", name="orders"))
    assert listener.lags()["orders"].is_active
    listener.onQueryProgress(event(progress=SimpleNamespace(json=json.dumps(progress(0, 100, 100, 250)))))
    assert listener.lags()["orders"].total_behind == 150
    listener.onQueryIdle(event(id="q"))
    listener.onQueryTerminated(event(id="q", exception="boom\n at x"))
    ended = listener.lags()["orders"]
    assert (ended.is_active, ended.error, ended.rows) == (False, "boom", 100)
    listener.onQueryStarted(event(id="q", name="orders"))
    assert listener.lags()["orders"].error == ""


def test_losses_come_from_the_loss_table(tmp_path: Path) -> None:
    listener = LagListener(loss_tables={"orders": str(tmp_path), "other": "/nowhere"})
    listener.add(progress(0, 100, 100, 250))
    assert listener.lags()["orders"].losses == 0
    (tmp_path / "loss-a.json").write_text('{"messages": 7}')
    (tmp_path / "loss-b.json").write_text('{"messages": 5}')
    (tmp_path / "loss-c.json").write_text("half a fi")
    (tmp_path / "else.json").write_text('{"messages": 100}')
    assert listener.lags()["orders"].losses == 12


def test_prometheus_text_on_loopback() -> None:
    with LagListener(metrics_port=0) as listener:
        listener.add(progress(0, 100, 100, 250))
        assert listener.metrics_address.startswith("http://127.0.0.1:")
        with urlopen(listener.metrics_address) as answer:
            text = answer.read().decode()
        with pytest.raises(UsageError, match="another port"):
            LagListener(metrics_port=int(listener.metrics_address.split(":")[2].split("/")[0]))
    assert 'rocketlake_query_total_offsets_behind_latest{query="orders"} 150.0' in text
    assert 'rocketlake_query_rows_total{query="orders"} 100.0' in text
    assert 'rocketlake_query_bad_rows_total{query="orders"} 1.0' in text
    assert all(f"rocketlake_query_{name}" in text for name in METRICS)


def test_lines_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    listener = LagListener()
    with ProgressView(Console(file=out, width=200)) as view:
        listener.onQueryStarted(event(id="q", name="orders"))
        view.show(listener.lags())
        listener.add(progress(0, 100, 100, 250))
        view.show(listener.lags())
        view.show(listener.lags())
    (line,) = out.getvalue().splitlines()
    assert line.startswith("orders: rows 100, rows/s 200, behind 150")


def test_a_table_where_there_is_one() -> None:
    out = io.StringIO()
    listener = LagListener()
    listener.add(progress(0, 1234, 100, 250))
    with ProgressView(Console(file=out, width=200, force_terminal=True)) as view:
        view.show(listener.lags())
    assert "1,234" in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.44, "0.4 s"), (12.4, "12 s"), (200, "3 m 20 s"), (7500, "2 h 5 m"), (273_600, "3 d 4 h")],
)
def test_durations_for_readers(seconds: float, text: str) -> None:
    assert duration(seconds) == text
