"""`make bench`: Apache RocketMQ and RocketLake by turns (A B A B) under Apache's own benchmark producer.

Prints a table and writes bench/results/<date>.json. CPU per message of the broker process is the first figure: it holds
on a noisy machine. A line whose two Apache runs differ by more than 10 % says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.brokers import Apache, RocketLake, Side
from bench.java_producer import JavaProducer
from interop.apache import PeerMissing

RESULTS = Path(__file__).resolve().parent / "results"
LOADS = ((64, 128), (64, 1024))


def measure(side: Side, threads: int, body_bytes: int, reports: int) -> dict[str, float]:
    """One run: warm up two reports (20 s), then medians over `reports` reports and broker CPU per message."""
    producer = JavaProducer(side.namesrv, threads=threads, body_bytes=body_bytes)
    producer.start()
    try:
        for _ in range(2):
            producer.next_report()
        cpu, began = side.cpu_seconds(), time.monotonic()
        taken = [producer.next_report() for _ in range(reports)]
        cpu, seconds = side.cpu_seconds() - cpu, time.monotonic() - began
    finally:
        producer.stop()
    tps = statistics.median(report.tps for report in taken)
    messages = statistics.mean(report.tps for report in taken) * seconds
    return {
        "sends_per_second": tps,
        "broker_cpu_us_per_message": round(cpu * 1e6 / messages, 2),
        "average_ms": statistics.median(report.average_ms for report in taken),
        "failed": taken[-1].failed,
    }


def run_side(kind: type[Apache] | type[RocketLake], root: Path, reports: int) -> dict[str, Any]:
    shutil.rmtree(root, ignore_errors=True)
    result: dict[str, Any] = {"side": kind.name}
    with kind(root) as side:
        result["start_seconds"] = round(side.start_seconds, 3)
        result["memory_idle_mb"] = side.memory_mb()
        for threads, body_bytes in LOADS:
            print(f"  {kind.name}: {threads} threads, {body_bytes} B ...", flush=True)
            result[f"{threads}x{body_bytes}"] = measure(side, threads, body_bytes, reports)
        result["memory_after_mb"] = side.memory_mb()
    shutil.rmtree(root, ignore_errors=True)
    return result


def compare(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Medians of both sides and the ratio ours / Apache's for each figure."""
    rows = []
    figures = [(f"{t}x{b}", name) for t, b in LOADS for name in ("sends_per_second", "broker_cpu_us_per_message")]
    figures += [("start_seconds", ""), ("memory_idle_mb", "anonymous"), ("memory_after_mb", "anonymous")]
    for group, name in figures:
        values: dict[str, list[float]] = {"apache": [], "rocketlake": []}
        for run in runs:
            values[run["side"]].append(run[group][name] if name else run[group])
        apache, ours = (statistics.median(values[side]) for side in ("apache", "rocketlake"))
        spread = (max(values["apache"]) - min(values["apache"])) / apache
        rows.append(
            {
                "figure": f"{group} {name}".strip(),
                "apache": apache,
                "rocketlake": ours,
                "ratio": round(ours / apache, 3),
                "noisy": spread > 0.10,
            }
        )
    return rows


def main() -> None:
    arguments = argparse.ArgumentParser(prog="make bench")
    arguments.add_argument("--rounds", type=int, default=2, help="how many times A B is run")
    arguments.add_argument("--reports", type=int, default=3, help="measured ten-second reports a run")
    options = arguments.parse_args()
    root = Path(tempfile.mkdtemp(prefix="rocketlake-bench-"))
    runs = []
    try:
        for number in range(options.rounds):
            for kind in (Apache, RocketLake):
                print(f"round {number + 1} of {options.rounds}: {kind.name}", flush=True)
                runs.append(run_side(kind, root / kind.name, options.reports))
    except PeerMissing as reason:
        raise SystemExit(f"cannot compare: {reason}") from None
    finally:
        shutil.rmtree(root, ignore_errors=True)
    rows = compare(runs)
    print(f"\n{'figure':42}{'Apache 5.3.3':>14}{'RocketLake':>14}{'ratio':>8}")
    for row in rows:
        mark = "  (Apache's runs differ by more than 10 %)" if row["noisy"] else ""
        print(f"{row['figure']:42}{row['apache']:>14,.1f}{row['rocketlake']:>14,.1f}{row['ratio']:>8.2f}{mark}")
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{datetime.now():%Y-%m-%d-%H%M}.json"
    target.write_text(json.dumps({"machine": machine, "table": rows, "runs": runs}, indent=2) + "\n")
    print(f"\nwritten: {target}")


if __name__ == "__main__":
    main()
