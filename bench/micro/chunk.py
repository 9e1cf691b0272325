"""`python -m bench.micro.chunk`: CPU of the broker for one chunk of sends, without sockets.

Owns        a broker in this process whose link is handed chunks, by runs (compiled form) and in the ordinary way.
Must not know   other brokers; how long anything takes on the wall clock.

1 KiB bodies, binary header, round robin over the 1024 queues of BenchmarkTest, a real store. `--profile N`: where the
time goes for chunks of N messages.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import time

from bench.generator import Template
from bench.micro.in_process import TOPIC, in_process

CHUNKS = (1, 4, 16, 64)
MESSAGES = 40_000


async def measure(count: int, *, by_runs: bool, profile: bool = False) -> float:
    """Microseconds of CPU for a chunk of `count` messages."""
    async with in_process() as served:
        if not by_runs:
            served.serve_one_by_one()
        link = served.link()
        template = Template(TOPIC, range(100, 1000), 1024)
        chunks = [bytes(template.frames(first, count)) for first in range(0, MESSAGES, count)]
        for chunk in chunks[: len(chunks) // 4]:
            link.data_received(chunk)
        while link.unfinished:  # noqa: ASYNC110
            await asyncio.sleep(0)
        before = served.broker.stats.put_times
        profiler = cProfile.Profile()
        began = time.process_time()
        if profile:
            profiler.enable()
        for number, chunk in enumerate(chunks):
            link.data_received(chunk)
            while number % 64 == 0 or link.unfinished:  # one by one they take turns
                await asyncio.sleep(0)
                number = 1
        profiler.disable()
        taken = time.process_time() - began
        if (stored := served.broker.stats.put_times - before) != len(chunks) * count:
            raise RuntimeError(f"{stored} messages were stored, not {len(chunks) * count}")
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)
    return taken / len(chunks) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro.chunk")
    parser.add_argument("--profile", type=int, metavar="N", help="profile chunks of N messages")
    options = parser.parse_args()
    if options.profile:
        asyncio.run(measure(options.profile, by_runs=True, profile=True))
        return
    print(f"{'messages a chunk':>16} {'by runs, us/chunk':>18} {'us/message':>11} {'one by one, us/message':>23}")
    for count in CHUNKS:
        runs = min(asyncio.run(measure(count, by_runs=True)) for _ in range(3))
        single = min(asyncio.run(measure(count, by_runs=False)) for _ in range(2))
        print(f"{count:16} {runs:18.1f} {runs / count:11.2f} {single / count:23.2f}", flush=True)


if __name__ == "__main__":
    main()
