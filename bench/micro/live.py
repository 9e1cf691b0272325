"""`python -m bench.micro.live`: CPU of the broker for a message that a consumer waits for, without sockets.

Owns        a broker in this process; a link that sends, and one that holds a pull for each queue and asks again.
Must not know   other brokers; how long anything takes on the wall clock.

1 KiB bodies, a real store. Each round sends a chunk, lets the held pulls of its queues be answered, and gives the
broker the next pulls of these queues as one chunk. `--profile N`: where the time goes with N messages a round.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import time

from bench.generator import Template
from bench.micro.in_process import TOPIC, in_process, pull

QUEUES = range(100, 356)
MESSAGES = 32_000
MESSAGES_A_ROUND = (1, 4, 16)


async def measure(count: int, *, by_runs: bool, profile: bool = False) -> float:
    """Microseconds of CPU for a message, `count` of them a round."""
    async with in_process(fast_failure=False) as served:
        if not by_runs:
            served.serve_one_by_one()
        sender, reader = served.link(), served.link()
        served.subscribe(reader)
        template = Template(TOPIC, QUEUES, 1024)
        rounds = range(0, MESSAGES, count)
        sends = [bytes(template.frames(first, count)) for first in rounds]
        size = len(QUEUES)
        asks = [
            b"".join(pull(QUEUES[number % size], number // size + 1) for number in range(first, first + count))
            for first in rounds
        ]
        reader.data_received(b"".join(pull(queue, 0) for queue in QUEUES))
        while reader.held < size:  # noqa: ASYNC110
            await asyncio.sleep(0)
        profiler = cProfile.Profile()
        began, warm = 0.0, len(sends) // 4
        for number, (send, ask) in enumerate(zip(sends, asks, strict=True)):
            if number == warm:
                began = time.process_time()
                if profile:
                    profiler.enable()
            sender.data_received(send)
            while reader.held > size - count:  # noqa: ASYNC110
                await asyncio.sleep(0)
            reader.data_received(ask)
            while reader.held < size:  # noqa: ASYNC110
                await asyncio.sleep(0)
        profiler.disable()
        taken = time.process_time() - began
        if (got := served.broker.stats.got_messages) != MESSAGES:
            raise RuntimeError(f"{got} messages were pulled, not {MESSAGES}")
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(40)
    return taken / (len(sends) - warm) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro.live")
    parser.add_argument("--profile", type=int, metavar="N", help="profile rounds of N messages")
    options = parser.parse_args()
    if options.profile:
        asyncio.run(measure(options.profile, by_runs=True, profile=True))
        return
    print(f"{'a round':>8} {'by runs, us/message':>20} {'one by one, us/message':>23}")
    for count in MESSAGES_A_ROUND:
        runs = min(asyncio.run(measure(count, by_runs=True)) for _ in range(3))
        single = min(asyncio.run(measure(count, by_runs=False)) for _ in range(2))
        print(f"{count:8} {runs:20.1f} {single:23.1f}", flush=True)


if __name__ == "__main__":
    main()
