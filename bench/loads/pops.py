"""Remoting POP beside Apache 5.5.0: pop and acknowledge in batches of 32; the memory of a million messages in flight.

The consumer is bench/python_clients/pops.py on both sides: what is measured is the broker.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from bench import wire
from bench.brokers import Side
from bench.loads.backlog import fill
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from bench.program import Program
from bench.window import Window, started_values

PROGRAM = Path(__file__).resolve().parents[1] / "python_clients" / "pops.py"
TOPIC, GROUP, QUEUES = "PopLoad", "bench_pops", 8
WORKERS = 16
BACKLOG = 1_000_000
IN_FLIGHT = 1_000_000
HELD_BODY_BYTES = 100
FROM, TO = 0.1, 0.9
"""The part of the backlog that is measured."""
HOLD_SECONDS = 420


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    messages = min(BACKLOG, plan.backlog_messages)
    with kind(root) as side:
        values = _begun(side, messages, 1024)
        with _popping(side) as consumer:
            start = _wait_for(consumer, "acked", messages * FROM)
            window = Window(side, consumer)
            acked = _wait_for(consumer, "acked", messages * TO) - start
            values |= window.close(acked)
        values["after_mb"] = side.memory_mb()["anonymous"]
    return values


def in_flight(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    """Anonymous and resident memory before and behind, and how much more for a million."""
    count = min(IN_FLIGHT, plan.backlog_messages)
    with kind(root) as side:
        values = _begun(side, count + count // 20, HELD_BODY_BYTES)  # the last pops of 16 workers take more than 32
        time.sleep(2)
        before = side.memory_mb()
        command = [sys.executable, str(PROGRAM), side.broker, TOPIC, GROUP, str(WORKERS), str(count)]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=HOLD_SECONDS)
        if done.returncode:
            raise RuntimeError(f"{PROGRAM.name} failed: {(done.stdout + done.stderr)[-1500:]}")
        values["popped_per_second"] = round(count / (time.monotonic() - began), 1)
        time.sleep(5)
        after = side.memory_mb()
    for name in ("anonymous", "resident"):
        values[f"{name}_mb"] = after[name]
        values[f"{name}_more_mb_1m"] = round((after[name] - before[name]) * 1_000_000 / count, 1)
    return values


def _begun(side: Side, messages: int, body_bytes: int) -> Values:
    values = started_values(side)
    wire.create_topic(side.broker, side.namesrv, TOPIC, QUEUES)
    values["fill_seconds"] = fill(side, messages, TOPIC, body_bytes)
    say(f"{side.name}: popping")
    return values


def _popping(side: Side) -> Program:
    return Program(PROGRAM.name, [sys.executable, str(PROGRAM), side.broker, TOPIC, GROUP, str(WORKERS)])


def _wait_for(consumer: Program, counter: str, count: float) -> int:
    """Wait for the line that says so many; how many it says."""
    lines = 0
    while True:
        lines = consumer.wait_for_line(lines, 60)
        sample = consumer.latest()
        if sample.counters[counter] >= count:
            return sample.counters[counter]


LOADS = (
    Load(
        "pop-32",
        "Remoting POP and ack, batches of 32, 1 KiB",
        (
            Figure("messages_per_second", "messages/s", 1.3, 2),
            Figure("broker_cpu_us", "broker CPU, us/message", 0.4, 0.2, "lower"),
            Figure("client_cpu_us", "client CPU, us/message", better="lower"),
        ),
        run,
    ),
    Load(
        "pop-in-flight",
        "A million popped messages in flight, 100 B",
        (
            Figure("anonymous_more_mb_1m", "memory of a million in flight, MB", 300, 150, "lower", "ours"),
            Figure("anonymous_mb", "memory of the broker behind, MB", better="lower"),
            Figure("popped_per_second", "popped/s"),
        ),
        in_flight,
    ),
)
