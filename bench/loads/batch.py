"""Batches of 32 messages of 1 KiB, from our own Java driver: Maven Central has no BatchProducer of Apache's."""

from __future__ import annotations

import time
from pathlib import Path

from bench.java import BatchSend
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from bench.window import Window, started_values, wait_for_sends

THREADS, PER_BATCH, BODY_BYTES = 8, 32, 1024


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    with (
        kind(root) as side,
        BatchSend(side.namesrv, threads=THREADS, per_batch=PER_BATCH, body_bytes=BODY_BYTES) as sender,
    ):
        values = started_values(side)
        wait_for_sends(side)
        # Half the usual times: at full speed a minute of this is 10 GB.
        say(f"{kind.name}: warming up {plan.warm / 2:.0f} s")
        time.sleep(plan.warm / 2)
        say(f"{kind.name}: measuring {plan.seconds / 2:.0f} s")
        window = Window(side, sender)
        time.sleep(plan.seconds / 2)
        values |= window.close()
        values["failed"] = float(sender.latest().counters["failed"])
    return values


LOADS = (
    Load(
        "batch-32",
        f"Batches of 32 x 1 KiB, {THREADS} threads",
        (
            Figure("messages_per_second", "messages/s", 1.0, 2.0),
            Figure("broker_cpu_us", "broker CPU, us/message", better="lower"),
            Figure("log_mb_per_second", "commit log, MB/s"),
        ),
        run,
    ),
)
