"""From the start of the process to the first acknowledged send: on an empty store, and after kill -9 on a full one."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

from bench.loads.backlog import fill
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say

RECORD_BYTES = 1130
"""About what a batched message of 1 KiB takes in the log."""


def run_empty(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    seconds, idle = [], []
    for _ in range(plan.starts):
        with kind(root) as side:
            seconds.append(side.start_seconds)
            idle.append(side.memory_mb()["anonymous"])
        shutil.rmtree(root)
    return {"start_seconds": round(statistics.median(seconds), 3), "idle_mb": statistics.median(idle)}


def run_killed(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    with kind(root) as side:
        fill(side, plan.restart_bytes // RECORD_BYTES)
        log_bytes = side.counts()[1]
        say(f"{kind.name}: kill -9 with {log_bytes / 2**30:.2f} GiB")
        side.kill_broker()
        side.start_broker()
        kept = side.counts()[1]
        if kept < log_bytes:
            raise RuntimeError(f"{kind.name} lost {log_bytes - kept} bytes of its log to a kill -9")
        return {"restart_seconds": round(side.start_seconds, 3), "store_mb": round(log_bytes / 1e6, 1)}


LOADS = (
    Load(
        "start",
        "Start on an empty store",
        (
            Figure("start_seconds", "s to the first acknowledged send", 0.7, 0.4, "lower", "ours"),
            Figure("idle_mb", "memory idle, MB", 80, 50, "lower", "ours"),
        ),
        run_empty,
    ),
    Load(
        "restart",
        "Restart after kill -9 with a 2 GiB store",
        (Figure("restart_seconds", "s to the first acknowledged send", 2.0, 1.0, "lower", "ours"),),
        run_killed,
    ),
)
