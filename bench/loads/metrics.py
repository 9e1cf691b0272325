"""What a scrape of the metrics costs a broker with 10,000 queues: 2,500 topics of four. Ours alone, in this process.

No request pays for metrics, so a scrape is all that they cost. Another process asks, as Prometheus does, once the
broker has stored what it was given.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

from bench.brokers import RocketLake
from bench.micro.in_process import in_process
from bench.plan import Earlier, Figure, Load, Plan, SideKind, Values, say
from rocketlake.model.group import GroupConfig
from rocketlake.model.topic import TopicConfig
from rocketlake.net.http.settings import MetricsExporter
from rocketlake.store.results import PutMessage

TOPICS, QUEUES = 2_500, 4
SCRAPES = 7
INTERVAL_SECONDS = 15
PAUSE_SECONDS = 2.0
CALM_CORE, CALM_TRIES = 0.1, 30
_READER = """
import sys, urllib.request
for line in sys.stdin:
    print(len(urllib.request.urlopen(sys.argv[1]).read()), flush=True)
"""


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
        await calm()
        async with reading(f"http://{broker.monitor.address}/metrics") as read:
            taken = []
            for number in range(SCRAPES):
                began, before = time.monotonic(), time.process_time()
                page_bytes = await read()
                cpu, wall = time.process_time() - before, time.monotonic() - began
                taken.append(cpu)
                say(f"scrape {number + 1}: {cpu * 1000:.0f} ms of CPU for {page_bytes / 1e6:.1f} MB in {wall:.1f} s")
                await asyncio.sleep(PAUSE_SECONDS)
    return taken


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Callable[[], Awaitable[int]]]:
    """A process that reads the page when it is told to, and says how many bytes it got."""
    pipe = asyncio.subprocess.PIPE
    reader = await asyncio.create_subprocess_exec(sys.executable, "-c", _READER, url, stdin=pipe, stdout=pipe)
    assert reader.stdin is not None and reader.stdout is not None
    asking, answers = reader.stdin, reader.stdout

    async def read() -> int:
        asking.write(b"now\n")
        return int(await answers.readline())

    try:
        yield read
    finally:
        asking.close()
        await reader.wait()


async def calm() -> None:
    """Wait until this process is idle: the queues are written and synced."""
    for _ in range(CALM_TRIES):
        before = time.process_time()
        await asyncio.sleep(PAUSE_SECONDS)
        if time.process_time() - before < CALM_CORE * PAUSE_SECONDS:
            return
    raise TimeoutError(f"the broker took more than {CALM_CORE:.0%} of a core for {CALM_TRIES * PAUSE_SECONDS:.0f} s")


def run(kind: SideKind, root: Path, plan: Plan, earlier: Earlier) -> Values:
    if not issubclass(kind, RocketLake):
        return {}
    taken = asyncio.run(measure())
    return {
        "first_scrape_ms": round(1000 * taken[0], 1),
        "scrape_ms": round(1000 * median(taken[2:]), 1),
        "core_percent": round(100 * median(taken[2:]) / INTERVAL_SECONDS, 2),
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
