"""`python -m bench.micro.scrape`: what a scrape of the metrics costs a broker with 10,000 queues.

Owns        a broker in this process with 2,500 topics of four queues, and a group on each that is behind.
Must not know   Prometheus. No request pays for metrics, so a scrape is all that they cost.

Prints the CPU of the first scrape and of later ones, and their share of a core at a scrape each 15 s.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from bench.micro.in_process import in_process
from rocketlake.model.group import GroupConfig
from rocketlake.model.topic import TopicConfig
from rocketlake.net.http.settings import MetricsExporter
from rocketlake.store.results import PutMessage
from tests.integration.scraped import get

INTERVAL_SECONDS = 15


async def measure(topics: int, scrapes: int) -> list[float]:
    """CPU seconds of each scrape."""
    settings = {"metrics_exporter": MetricsExporter.PROM, "metrics_port": 0, "metrics_samples_max": 1_000_000}
    async with in_process(**settings) as served:
        broker = served.broker
        for number in range(topics):
            name, group = f"Topic{number:04d}", f"group{number:04d}"
            broker.topics.put(TopicConfig(name, read_queues=4, write_queues=4))
            broker.groups.put(GroupConfig(group))
            for queue_id in range(4):
                for _ in range(2):
                    broker.store.put(PutMessage(name, queue_id, b"x" * 100))
                broker.offsets.commit(group, name, queue_id, 1)
        taken = []
        for number in range(scrapes):
            before = time.process_time()
            page = await get(broker.monitor.address, "/metrics")
            taken.append(time.process_time() - before)
            print(f"scrape {number + 1}: {taken[-1] * 1000:.0f} ms of CPU, {len(page.body) / 1e6:.1f} MB", flush=True)
    return taken


def main() -> None:
    """Print a line for each scrape, and the share of a core."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.scrape")
    parser.add_argument("--topics", type=int, default=2_500)
    parser.add_argument("--scrapes", type=int, default=5)
    given = parser.parse_args()
    taken = asyncio.run(measure(given.topics, given.scrapes))
    print(
        f"{min(taken[1:]) / INTERVAL_SECONDS:.2%} of a core at a scrape each {INTERVAL_SECONDS} s (must be under 1 %)"
    )


if __name__ == "__main__":
    main()
