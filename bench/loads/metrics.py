"""What a scrape of the metrics costs a broker with 10,000 queues: 2,500 topics of four. Ours alone, in this process.

No request pays for metrics, so a scrape is all that they cost.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.brokers import RocketLake
from bench.micro.in_process import in_process
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from rocketlake.model.group import GroupConfig
from rocketlake.model.topic import TopicConfig
from rocketlake.net.http.settings import MetricsExporter
from rocketlake.store.results import PutMessage
from tests.integration.scraped import get

TOPICS, QUEUES = 2_500, 4
SCRAPES = 5
INTERVAL_SECONDS = 15


async def measure() -> list[float]:
    """CPU seconds of each scrape, while a group on each topic is behind."""
    settings = {"metrics_exporter": MetricsExporter.PROM, "metrics_port": 0, "metrics_samples_max": 1_000_000}
    async with in_process(**settings) as served:
        broker = served.broker
        for number in range(TOPICS):
            name, group = f"Topic{number:04d}", f"group{number:04d}"
            broker.topics.put(TopicConfig(name, read_queues=QUEUES, write_queues=QUEUES))
            broker.groups.put(GroupConfig(group))
            for queue_id in range(QUEUES):
                for _ in range(2):
                    broker.store.put(PutMessage(name, queue_id, b"x" * 100))
                broker.offsets.commit(group, name, queue_id, 1)
        taken = []
        for number in range(SCRAPES):
            before = time.process_time()
            page = await get(broker.monitor.address, "/metrics")
            taken.append(time.process_time() - before)
            say(f"scrape {number + 1}: {taken[-1] * 1000:.0f} ms of CPU, {len(page.body) / 1e6:.1f} MB")
    return taken


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    if not issubclass(kind, RocketLake):
        return {}
    first, *later = asyncio.run(measure())
    return {
        "first_scrape_ms": round(1000 * first, 1),
        "scrape_ms": round(1000 * min(later), 1),
        "core_percent": round(100 * min(later) / INTERVAL_SECONDS, 2),
    }


LOADS = (
    Load(
        "metrics-10000",
        "metrics of 10,000 queues, a scrape each 15 s",
        (
            Figure("core_percent", "share of a core, %", 1, None, "lower", "ours"),
            Figure("first_scrape_ms", "CPU of the first scrape, ms", better="lower"),
        ),
        run,
    ),
)
