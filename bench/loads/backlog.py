"""A consumer over a backlog: Apache's Java push consumer with default settings; and the memory before and after."""

from __future__ import annotations

from pathlib import Path

from bench.brokers import Side
from bench.java import BatchSend, Drain
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from bench.window import Window, started_values

FROM, TO = 0.1, 0.9
"""The part of the backlog that is measured: without the start of the consumer, without its last queues."""


def fill(side: Side, messages: int, topic: str = "BenchmarkTest", body_bytes: int = 1024) -> float:
    """Send so many messages in batches; seconds it took."""
    say(f"{side.name}: sending {messages:,} messages of {body_bytes} bytes")
    with BatchSend(side.namesrv, threads=4, per_batch=32, body_bytes=body_bytes, count=messages, topic=topic) as sender:
        begin = sender.latest()
        sender.wait_for_end(600)
        end = sender.latest()
    if (failed := end.counters["failed"]) > messages / 100:
        raise RuntimeError(f"{failed} of {messages} messages were refused while filling")
    return (end.ms - begin.ms) / 1000


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    with kind(root) as side:
        values = started_values(side)
        values["fill_seconds"] = fill(side, plan.backlog_messages)
        values["after_send_mb"] = side.memory_mb()["anonymous"]
        say(f"{kind.name}: consuming")
        with Drain(side.namesrv) as drain:
            start = _wait_for(drain, plan.backlog_messages * FROM)
            window = Window(side, drain)
            received = _wait_for(drain, plan.backlog_messages * TO) - start
            values |= window.close(received)
            _wait_for(drain, plan.backlog_messages)
        values["after_mb"] = side.memory_mb()["anonymous"]
    return values


def _wait_for(drain: Drain, count: float) -> int:
    """Wait for the line that says so many were received; how many it says. Right after it, the clock is read."""
    lines = 0
    while True:
        lines = drain.wait_for_line(lines, 120)
        sample = drain.latest()
        if sample.counters["received"] >= count:
            return sample.counters["received"]


LOADS = (
    Load(
        "backlog",
        "Consumer over a backlog of 1 KiB messages",
        (
            Figure("messages_per_second", "messages/s", 1.0, 1.5),
            Figure("broker_cpu_us", "broker CPU, us/message", 0.5, 0.25, "lower"),
            Figure("idle_mb", "memory idle, MB", 80, 50, "lower", "ours"),
            Figure("after_mb", "memory after all were sent and read, MB", 120, 80, "lower", "ours"),
        ),
        run,
    ),
)
