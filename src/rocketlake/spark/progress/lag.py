"""One progress report of Spark -> numbers: how many messages behind, how many rows, how many bad.

Owns        reading progress JSON (offsets of any depth whose leaves are numbers: ours and Kafka's).
Must not know   Spark classes, earlier reports (totals.py).

The names min/max/avg/total OffsetsBehindLatest are those of Spark's Kafka source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["METRICS", "Offsets", "Report", "behind_latest", "flat_offsets", "read_report"]

METRICS = "rocketlake"
"""Name under which a query observes `rows`, `bad`, `bytes` and `newest_ms`, if it does (pipelines do)."""
_DEPTH_MAX = 6

Offsets = dict[tuple[str, ...], int]


@dataclass(frozen=True)
class Report:
    """The report of one micro-batch. Times in ms since 1970; -1: not known."""

    query: str
    name: str
    run: str
    batch: int
    began_ms: int
    batch_ms: int
    rows: int
    end: Offsets
    latest: Offsets
    bad: int = 0
    """Rows whose body could not be read."""
    observed_rows: int = 0
    observed_bytes: int = 0
    newest_ms: int = -1
    """Store time of the newest message of the batch."""


def read_report(progress: Mapping[str, Any]) -> Report:
    """Read Spark's progress, parsed from its JSON. A missing number counts as 0."""
    end: Offsets = {}
    latest: Offsets = {}
    for number, source in enumerate(progress.get("sources") or ()):
        # Two sources of one query may have queues of one name.
        end |= {(str(number), *key): value for key, value in flat_offsets(source.get("endOffset")).items()}
        latest |= {(str(number), *key): value for key, value in flat_offsets(source.get("latestOffset")).items()}
    observed = (progress.get("observedMetrics") or {}).get(METRICS) or {}
    return Report(
        query=str(progress.get("id", "")),
        name=str(progress.get("name") or progress.get("id", "")),
        run=str(progress.get("runId", "")),
        batch=int(progress.get("batchId", -1)),
        began_ms=_time(progress.get("timestamp")),
        batch_ms=int((progress.get("durationMs") or {}).get("triggerExecution", 0)),
        rows=max(0, int(progress.get("numInputRows") or 0)),
        end=end,
        latest=latest,
        bad=int(observed.get("bad") or 0),
        observed_rows=int(observed.get("rows") or 0),
        observed_bytes=int(observed.get("bytes") or 0),
        newest_ms=int(observed.get("newest_ms") or -1),
    )


def flat_offsets(offsets: object) -> Offsets:
    """Offsets by path: {"T": {"broker-a": {"0": 5}}} is {("T", "broker-a", "0"): 5}; {} for other forms."""
    if isinstance(offsets, str):
        try:
            offsets = json.loads(offsets)
        except (ValueError, RecursionError):
            return {}
    return dict(_leaves(offsets, ()))


def _leaves(node: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    if isinstance(node, Mapping) and len(path) < _DEPTH_MAX:
        for key, value in node.items():
            yield from _leaves(value, (*path, str(key)))
    elif path and isinstance(node, int) and not isinstance(node, bool):
        yield path, node


def behind_latest(end: Offsets, latest: Offsets) -> dict[tuple[str, ...], int]:
    """Messages between the end of the batch and the newest one, per queue; queues not read yet are left out."""
    return {queue: max(0, latest[queue] - end[queue]) for queue in latest if queue in end}


def _time(text: object) -> int:
    try:
        return int(datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp() * 1000)
    except ValueError:
        return -1
