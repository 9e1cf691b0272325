"""Apache's benchmark producer: closed loops of 1 to 256 threads, with and without SYNC_FLUSH."""

from __future__ import annotations

import statistics
import time
from functools import partial
from pathlib import Path

from bench.java import BenchmarkProducer
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from bench.window import Window, started_values, wait_for_sends

ONE_KIB = 1024


def run(
    kind: SideKind, root: Path, plan: Plan, earlier: Earlier, *, threads: int, body_bytes: int, flush: str
) -> Values:
    """Figures of a closed loop. `average_ms` is threads / rate: each thread has one send outstanding at any time."""
    with (
        kind(root, {"flushDiskType": flush}) as side,
        BenchmarkProducer(side.namesrv, threads=threads, body_bytes=body_bytes) as producer,
    ):
        values = started_values(side)
        wait_for_sends(side, 20)
        say(f"{kind.name}: warming up {plan.warm:.0f} s")
        time.sleep(plan.warm)
        say(f"{kind.name}: measuring {plan.seconds:.0f} s")
        window = Window(side, producer)
        began = time.monotonic()
        time.sleep(plan.seconds)
        values |= window.close()
        reports = [report for report in producer.reports() if report.at > began + 10]
        values["average_ms"] = round(threads / values["messages_per_second"] * 1000, 4)
        if reports:  # they cover ten seconds each: only those that lie within the window are comparable
            values["reported_per_second"] = statistics.median(report.tps for report in reports)
            values["reported_average_ms"] = statistics.median(report.average_ms for report in reports)
        values["failed"] = float(max((report.failed for report in producer.reports()), default=0))
        values["after_mb"] = side.memory_mb()["anonymous"]
    return values


def closed_loop(
    name: str, title: str, figures: tuple[Figure, ...], threads: int, body_bytes: int, flush: str = "ASYNC_FLUSH"
) -> Load:
    return Load(name, title, figures, partial(run, threads=threads, body_bytes=body_bytes, flush=flush))


def sync_flush(threads: int) -> Load:
    title = f"SYNC_FLUSH, {threads} thread{'s' if threads > 1 else ''}, 1 KiB"
    figures = (
        Figure("messages_per_second", "sends/s", 1.1, 1.5),
        Figure("broker_cpu_us", "broker CPU, us/message", better="lower"),
    )
    return closed_loop(f"sync-flush-{threads}", title, figures, threads, ONE_KIB, "SYNC_FLUSH")


def cpu(must: float | None = None, aim: float | None = None) -> Figure:
    return Figure("broker_cpu_us", "broker CPU, us/message", must, aim, "lower")


LOADS = (
    closed_loop(
        "producer-64",
        "Producer 64 threads, 1 KiB",
        (
            Figure("messages_per_second", "sends/s", 1.3, 1.8),
            cpu(0.4, 0.2),
            Figure("switches_per_message", "context switches/message", better="lower"),
            Figure("log_mb_per_second", "commit log, MB/s"),
        ),
        64,
        ONE_KIB,
    ),
    closed_loop(
        "producer-64-128", "Producer 64 threads, 128 B", (Figure("messages_per_second", "sends/s"), cpu()), 64, 128
    ),
    closed_loop(
        "producer-1",
        "Producer 1 thread, 1 KiB",
        (Figure("average_ms", "average latency, ms", 1.0, 0.75, "lower"), cpu()),
        1,
        ONE_KIB,
    ),
    *(sync_flush(threads) for threads in (1, 16, 64, 256)),
)
