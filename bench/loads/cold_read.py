"""A consumer reads an old backlog from disk while others send: what that does to the latency of the sends.

The store is filled, the broker stopped in order, its files are dropped from the page cache and the broker is started
again. Log files are small here, a tenth of the backlog: a start reads the last ones, the others stay cold.

The reader is bench/puller.py, which needs a tenth of a core: with Apache's consumer on the same two cores the generator
alone was late by 2 to 3 ms at p99, and the scheduler was measured. What it reads meanwhile is reported, since a reader
that gets nothing proves nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.loads.backlog import fill
from bench.loads.open_loop import apache_maximum, generate
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from bench.program import Program
from bench.window import wait_until

RECORD_BYTES = 1130


def drop_from_page_cache(folder: Path) -> None:
    """Sync every file and let the kernel forget its pages. Pages that a process has mapped stay."""
    for path in folder.rglob("*"):
        if path.is_file():
            number = os.open(path, os.O_RDONLY)
            try:
                os.fsync(number)
                os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(number)


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    rate = round(apache_maximum(root, plan, earlier) / 4)
    with kind(root / "side", {"mappedFileSizeCommitLog": plan.cold_messages * RECORD_BYTES // 10}) as side:
        fill(side, plan.cold_messages)
        say(f"{kind.name}: stopping, dropping the page cache, starting")
        side.stop_broker()
        drop_from_page_cache(side.store)
        side.start_broker()
        quiet = generate(side, plan, "--rate", rate, warm=plan.warm / 2, seconds=plan.seconds / 2)
        read_before = disk_bytes_read(side.broker_pid)
        with Program("puller", [sys.executable, "-m", "bench.puller", side.broker, "BenchmarkTest"]) as reader:
            wait_until(lambda: reader.latest().counters["received"] > 1000, "the reader's first messages", 60)
            begin = reader.latest()
            busy = generate(side, plan, "--rate", rate, warm=0.5, seconds=plan.seconds / 4)
            end = reader.latest()
        received = end.counters["received"]
        reading_seconds = (end.ms - begin.ms) / 1000
        return {
            "rate": rate,
            "quiet_p99_ms": quiet["generator_p99_ms"],
            "busy_p99_ms": busy["generator_p99_ms"],
            # The generator's own lateness: what of it is a want of processors, not the broker.
            "busy_late_p99_ms": busy["generator_late_ms_p99"],
            "p99_ratio": round(busy["generator_p99_ms"] / quiet["generator_p99_ms"], 2),
            "read_per_second": round((received - begin.counters["received"]) / reading_seconds),
            "still_behind": max(0, plan.cold_messages - received),
            "read_from_disk_mb": round((disk_bytes_read(side.broker_pid) - read_before) / 1e6, 1),
        }


def disk_bytes_read(pid: int) -> int:
    """Bytes the process caused to be read from storage (proc(5), io, read_bytes)."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


LOADS = (
    Load(
        "cold-read",
        "Sends while a consumer reads an old backlog from disk",
        (
            Figure("p99_ratio", "p99 of sends, with / without the reader", 2.0, None, "lower", "ours"),
            Figure("quiet_p99_ms", "p99 without, ms", better="lower"),
            Figure("busy_p99_ms", "p99 with, ms", better="lower"),
            Figure("busy_late_p99_ms", "of it the generator's own delay, p99, ms", better="lower"),
            Figure("read_per_second", "messages/s the reader got meanwhile"),
            Figure("read_from_disk_mb", "read from disk, MB"),
            Figure("still_behind", "messages the reader was still behind at the end"),
        ),
        run,
    ),
)
