"""Apache's benchmark of transactions: each message is sent as a half message and committed at once.

A transaction is what consumers can read: messages of the real topic, as the broker counts them. The end of a
transaction is one-way, so the loop is closed over the half message alone.
"""

from __future__ import annotations

import time
from pathlib import Path

from bench import wire
from bench.java import BenchmarkTransactions
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from bench.window import Window, started_values, wait_until

THREADS = 64
TOPIC, HALF_TOPIC = "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC"


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    """`open_at_end`: half messages that were not committed yet; `checked`: how many the producer was asked about."""
    with (
        kind(root) as side,
        BenchmarkTransactions(side.namesrv, threads=THREADS, body_bytes=1024) as producer,
    ):
        values = started_values(side)
        wait_until(lambda: wire.messages_of(side.broker, TOPIC) > 20, "the first transactions", pause=0.2)
        say(f"{kind.name}: warming up {plan.warm:.0f} s")
        time.sleep(plan.warm)
        say(f"{kind.name}: measuring {plan.seconds:.0f} s")
        before = wire.messages_of(side.broker, TOPIC)
        window = Window(side, producer)
        time.sleep(plan.seconds)
        values |= window.close(wire.messages_of(side.broker, TOPIC) - before)
        # The message of the start was no transaction; those put back for a check are counted by `checked`.
        halves, ended = wire.messages_of(side.broker, HALF_TOPIC), wire.messages_of(side.broker, TOPIC) - 1
        values["open_at_end"] = float(max(0, halves - ended))
        reports = producer.reports()
        values["failed"] = float(max((report.failed for report in reports), default=0))
        values["checked"] = float(producer.checked())
        values["after_mb"] = side.memory_mb()["anonymous"]
    return values


LOADS = (
    Load(
        "transaction",
        f"Transactions, {THREADS} threads, 1 KiB",
        (
            Figure("messages_per_second", "transactions/s", must=1.5, aim=2.5),
            Figure("broker_cpu_us", "broker CPU, us/transaction", must=0.4, aim=0.2, better="lower"),
        ),
        run,
    ),
)
