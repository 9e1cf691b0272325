"""Sends that do not wait for the broker, at half of what Apache's takes at most; and what our generator is worth.

`open-loop`: percentiles from the due time of each message (bench/generator.py). `generator-64`: the generator as a
closed loop of 64 on one connection beside Apache's producer with 64 threads, which also is on one connection.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.brokers import Apache, Side
from bench.java import BenchmarkProducer
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from bench.window import Window, started_values, wait_for_sends

ROOT = Path(__file__).resolve().parents[2]


def generate(
    side: Side, plan: Plan, *arguments: object, warm: float | None = None, seconds: float | None = None
) -> Values:
    """Run the generator as a process; its figures and those of the broker while it measured. Times are the plan's."""
    warm, seconds = warm or plan.warm, seconds or plan.seconds
    times = ("--warm", warm, "--seconds", seconds)
    command = [sys.executable, "-m", "bench.generator", side.broker, *map(str, (*arguments, *times))]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        wait_for_sends(side)
        say(f"{side.name}: warming up {warm:.0f} s, then measuring {seconds:.0f} s")
        time.sleep(warm)
        window = Window(side)
        time.sleep(max(1.0, seconds - 1))
        values = window.close()
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        raise RuntimeError(f"the generator ended with {process.returncode}")
    return values | {f"generator_{key}": value for key, value in json.loads(output).items()}


def apache_maximum(root: Path, plan: Plan, earlier: Earlier) -> float:
    """Sends a second of Apache's broker under 64 threads, 1 KiB: from this run, else measured now."""
    known = [*earlier.values("producer-64", "apache", "messages_per_second")]
    known += earlier.values("apache-maximum", "apache", "messages_per_second")
    if known:
        return statistics.median(known)
    say("apache: measuring its maximum first")
    with Apache(root / "maximum") as side, BenchmarkProducer(side.namesrv, threads=64, body_bytes=1024) as _producer:
        wait_for_sends(side)
        time.sleep(plan.warm)
        window = Window(side)
        time.sleep(plan.seconds)
        values = window.close()
    earlier.runs["apache-maximum"] = [{"side": "apache", "values": values}]
    return values["messages_per_second"]


def run_open(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    rate = apache_maximum(root, plan, earlier) / 2
    say(f"{kind.name}: {rate:,.0f} sends/s, half of Apache's maximum")
    with kind(root / "side") as side:
        values = started_values(side)
        return values | generate(side, plan, "--rate", round(rate)) | {"rate": round(rate)}


def run_closed(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    with kind(root) as side:
        arguments = ("--window", 64, "--connections", 1)
        return started_values(side) | generate(side, plan, *arguments, warm=plan.warm / 2, seconds=plan.seconds / 2)


LOADS = (
    Load(
        "open-loop",
        "Open loop at half of Apache's maximum, 1 KiB",
        (
            Figure("generator_p50_ms", "p50, ms", better="lower"),
            Figure("generator_p99_ms", "p99, ms", 0.8, 0.5, "lower"),
            Figure("generator_p999_ms", "p99.9, ms", 0.8, 0.5, "lower"),
            Figure("broker_cpu_us", "broker CPU, us/message", better="lower"),
            Figure("generator_refused", "refused", better="lower"),
        ),
        run_open,
    ),
    Load(
        "generator-64",
        "Our generator, 64 outstanding on one connection, 1 KiB",
        (
            Figure("messages_per_second", "sends/s"),
            Figure("broker_cpu_us", "broker CPU, us/message", better="lower"),
        ),
        run_closed,
    ),
)
