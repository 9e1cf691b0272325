"""`python -m bench.two_copies`: sends that are acknowledged when two brokers have them, Apache's and ours by turns.

Owns        the load on a master and its slave, what is measured at both.
Must not know   how a side replicates.

Each run starts a fresh group of two on these cores, and Apache's benchmark producer sends 1 KiB messages to it.
CPU per message of the master is the first figure. Writes bench/results/<date>-two-copies.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from bench import wire
from bench.__main__ import machine, result_path
from bench.groups import GROUPS, Group
from bench.java import BenchmarkProducer
from bench.window import wait_until

TWO_COPIES: dict[str, object] = {"inSyncReplicas": 2, "minInSyncReplicas": 2}
FIGURES = ("messages_per_second", "master_cpu_us", "slave_cpu_us")


def run(kind: type[Group], folder: Path, threads: int, warm: float, seconds: float) -> dict[str, float]:
    """One group, one load."""
    with kind(folder) as group:
        for _ in range(2):
            group.broker(**TWO_COPIES).start()
        master = group.settled(2)
        slave = next(broker for broker in group.brokers if broker is not master)

        def now() -> tuple[float, int, float, float]:
            puts = int(wire.runtime_info(master.address)["putMessageTimesTotal"])
            return time.monotonic(), puts, master.cpu_seconds(), slave.cpu_seconds()

        with BenchmarkProducer(group.namesrv, threads=threads, body_bytes=1024) as producer:
            first = now()[1]
            wait_until(lambda: now()[1] > first + 100, "the first sends", 60, pause=0.2)
            time.sleep(warm)
            before = now()
            time.sleep(seconds)
            took, count, master_cpu, slave_cpu = (new - old for old, new in zip(before, now(), strict=True))
            failed = max((report.failed for report in producer.reports()), default=0)
            driver = producer.cpu_seconds()
        in_step = group.standing()[1]
    values = {
        "messages_per_second": round(count / took, 1),
        "master_cpu_us": round(master_cpu * 1e6 / count, 2),
        "slave_cpu_us": round(slave_cpu * 1e6 / count, 2),
        "average_ms": round(threads * took / count * 1000, 3),
        "failed": failed,
        "in_step": in_step,
        "producer_cpu_seconds": round(driver, 2),
    }
    print(f"  {kind.name}: " + ", ".join(f"{name} {value:g}" for name, value in values.items()), flush=True)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.two_copies")
    parser.add_argument("--rounds", type=int, default=2, help="how many times each side is measured")
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--warm", type=float, default=12)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {kind.name: [] for kind in GROUPS}
    before = machine()
    folder = Path(tempfile.mkdtemp(prefix="rocketlake-two-copies-"))
    try:
        for number in range(options.rounds):
            for kind in GROUPS if number % 2 == 0 else reversed(GROUPS):
                place = folder / f"{kind.name}-{number}"
                runs[kind.name].append(run(kind, place, options.threads, options.warm, options.seconds))
                shutil.rmtree(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    apache, ours = (
        {name: statistics.median(run[name] for run in runs[kind.name]) for name in FIGURES} for kind in GROUPS
    )
    ratio = {name: round(ours[name] / apache[name], 3) for name in FIGURES}
    print("ours / Apache's: " + ", ".join(f"{name} {value:g}" for name, value in ratio.items()))
    target = result_path("two-copies")
    result = {"machine": before, "options": vars(options), "runs": runs, "ratio": ratio}
    target.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
