"""Produce and consume at the same time: how old a message is when the consumer's listener gets it."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from bench.java import BenchmarkProducer, Drain
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from bench.program import Sample
from bench.window import Window, started_values, wait_for_sends, wait_until

THREADS = 16


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    with kind(root) as side, Drain(side.namesrv) as drain:
        values = started_values(side)
        # The message of the start is there: the consumer has its queues when it got it.
        wait_until(lambda: drain.latest().counters["received"] > 0, "the consumer's first message", 60)
        with BenchmarkProducer(side.namesrv, threads=THREADS, body_bytes=1024) as producer:
            wait_for_sends(side)
            say(f"{kind.name}: warming up {plan.warm:.0f} s, then measuring {plan.seconds:.0f} s")
            time.sleep(plan.warm)
            window, began = Window(side, producer, drain), time.monotonic()
            time.sleep(plan.seconds)
            values |= window.close()
            samples = [sample for sample in drain.samples() if sample.at >= began + 0.5]
    return values | age_values(samples)


def age_values(samples: list[Sample]) -> Values:
    """Percentiles of store-to-listener, in whole milliseconds: both clocks are read in milliseconds."""
    ages: Counter[int] = Counter()
    for sample in samples:
        ages.update(sample.ages)
    values = {"received": float(ages.total())}
    for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
        seen = 0
        for age in sorted(ages):
            seen += ages[age]
            if seen >= share * ages.total():
                values[f"age_{name}_ms"] = float(age)
                break
    return values


LOADS = (
    Load(
        "live",
        f"Produce and consume live, {THREADS} threads, 1 KiB",
        (
            Figure("age_p50_ms", "p50 store to consumer, ms", better="lower"),
            Figure("age_p99_ms", "p99 store to consumer, ms", 5, 2, "lower", "ours"),
            Figure("age_p999_ms", "p99.9 store to consumer, ms", better="lower"),
            Figure("messages_per_second", "sends/s"),
            Figure("broker_cpu_us", "broker CPU, us/message sent and read", better="lower"),
        ),
        run,
    ),
)
