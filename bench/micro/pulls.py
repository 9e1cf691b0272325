"""`python -m bench.micro.pulls`: CPU of the broker for a pull of 32 messages, without sockets.

Owns        a broker in this process whose link is handed pulls, by runs (compiled form) and in the ordinary way.
Must not know   other brokers; how long anything takes on the wall clock.

1 KiB bodies, JSON header as Java sends it, a real store in memory. A queue's records lie in rows of 32 (batches of
producers) or each between records of other queues. `--profile`: where the time goes.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import time
from collections.abc import Sequence

from bench.generator import Template
from bench.micro.in_process import TOPIC, in_process, pull

QUEUES = range(100, 200)
MESSAGES = 64_000
AT_ONCE = 32
LAYOUTS = {"in rows": [queue for queue in QUEUES for _ in range(AT_ONCE)], "scattered": list(QUEUES)}
PULLS_A_CHUNK = (1, 4)


def pulls() -> list[bytes]:
    """Frames that read all messages, round the queues."""
    return [pull(queue_id, offset) for offset in range(0, MESSAGES // len(QUEUES), AT_ONCE) for queue_id in QUEUES]


async def measure(queues: Sequence[int], count: int, *, by_runs: bool, profile: bool = False) -> float:
    """Microseconds of CPU for a pull, `count` of them a chunk."""
    async with in_process(fast_failure=False) as served:
        link, stats = served.link(), served.broker.stats
        template = Template(TOPIC, queues, 1024)
        for first in range(0, MESSAGES, 64):
            link.data_received(bytes(template.frames(first, 64)))
            while link.unfinished:  # noqa: ASYNC110
                await asyncio.sleep(0)
        if not by_runs:
            served.serve_one_by_one()
        served.subscribe(link)
        frames = pulls()
        if (stored := stats.put_times) != MESSAGES:
            raise RuntimeError(f"{stored} messages were stored, not {MESSAGES}")
        chunks = [b"".join(frames[first : first + count]) for first in range(0, len(frames), count)]
        for chunk in chunks:  # once to warm up
            link.data_received(chunk)
            await asyncio.sleep(0)
        before = stats.got_messages
        profiler = cProfile.Profile()
        began = time.process_time()
        if profile:
            profiler.enable()
        for number, chunk in enumerate(chunks):
            link.data_received(chunk)
            while number % 64 == 0 or link.unfinished:
                await asyncio.sleep(0)
                number = 1
        profiler.disable()
        taken = time.process_time() - began
        if stats.got_messages - before != MESSAGES:
            raise RuntimeError(f"{stats.got_messages - before} messages were pulled, not {MESSAGES}")
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)
    return taken / len(frames) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro.pulls")
    parser.add_argument("--profile", action="store_true", help="profile single pulls of records in rows")
    options = parser.parse_args()
    if options.profile:
        asyncio.run(measure(LAYOUTS["in rows"], 1, by_runs=True, profile=True))
        return
    print(f"{'records':>10} {'pulls a chunk':>14} {'by runs, us/pull':>17} {'one by one, us/pull':>20}")
    for layout, queues in LAYOUTS.items():
        for count in PULLS_A_CHUNK:
            runs = min(asyncio.run(measure(queues, count, by_runs=True)) for _ in range(3))
            single = min(asyncio.run(measure(queues, count, by_runs=False)) for _ in range(2))
            print(f"{layout:>10} {count:14} {runs:17.1f} {single:20.1f}", flush=True)


if __name__ == "__main__":
    main()
