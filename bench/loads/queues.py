"""10,000 queues instead of 8: how much of the speed is left. Apache's benchmark producer, 64 threads, 1 KiB."""

from __future__ import annotations

import time
from pathlib import Path

from bench import wire
from bench.java import BenchmarkProducer
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from bench.window import Window, started_values, wait_for_sends

FEW, MANY = 8, 10_000


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    with kind(root) as side:
        values = started_values(side)
        for queues, name, warm in ((FEW, "few", plan.warm), (MANY, "many", plan.warm / 2)):
            topic = f"bench{queues}"
            wire.create_topic(side.broker, side.namesrv, topic, queues)
            with BenchmarkProducer(side.namesrv, threads=64, body_bytes=1024, topic=topic) as producer:
                began = time.monotonic()
                # Two rounds over all queues: their files exist, what is measured is the steady state.
                wait_for_sends(side, 2 * queues, 180)
                values[f"{name}_two_rounds_seconds"] = round(time.monotonic() - began, 2)
                say(f"{kind.name}: {queues:,} queues, warming up {warm:.0f} s")
                time.sleep(warm)
                window = Window(side, producer)
                time.sleep(plan.seconds / 2)
                values |= {f"{name}_{key}": value for key, value in window.close().items()}
        values["kept_percent"] = round(100 * values["many_messages_per_second"] / values["few_messages_per_second"], 1)
        values["after_mb"] = side.memory_mb()["anonymous"]
    return values


LOADS = (
    Load(
        "queues-10000",
        "10,000 queues instead of 8, 64 threads, 1 KiB",
        (
            Figure("kept_percent", "sends/s kept, %", 80, 95, "higher", "ours"),
            Figure("many_messages_per_second", "sends/s with 10,000 queues"),
            Figure("many_broker_cpu_us", "broker CPU with 10,000, us/message", better="lower"),
            Figure("few_broker_cpu_us", "broker CPU with 8, us/message", better="lower"),
        ),
        run,
    ),
)
