"""`python -m bench.micro.chunk`: CPU of the broker for one chunk of sends, without sockets.

Owns        a broker in this process whose link is handed chunks, by runs (compiled form) and in the ordinary way.
Must not know   other brokers; how long anything takes on the wall clock.

1 KiB bodies, binary header, round the 1024 queues of BenchmarkTest, a real store. `--profile N`: where the time goes
for chunks of N messages.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import tempfile
import time
from pathlib import Path

from bench.generator import Template
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.net.server_link import ServerLink
from rocketlake.store.config import StoreConfig

CHUNKS = (1, 4, 16, 64)
MESSAGES = 40_000


class Nowhere(asyncio.Transport):
    """A transport whose peer takes everything."""

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 40_000) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def writelines(self, list_of_data: object) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def measure(count: int, *, by_runs: bool, profile: bool = False) -> float:
    """Microseconds of CPU for a chunk of `count` messages."""
    with tempfile.TemporaryDirectory(prefix="rocketlake-chunk-") as folder:
        config = BrokerConfig(listen_port=0, fast_listen_port=0, store_root=Path(folder) / "store")
        broker = Broker(config, StoreConfig())
        await broker.start()
        if not by_runs:
            broker._dispatcher.after.append(lambda _request, _reply: None)  # see Dispatcher.run
        server = broker._servers[0]
        link = ServerLink(
            server, server.dispatcher, server._limits, server._clock, server._codec, server._warnings, server._turns
        )
        link.connection_made(Nowhere())
        template = Template("BenchmarkTest", range(100, 1000), 1024)
        chunks = [bytes(template.frames(first, count)) for first in range(0, MESSAGES, count)]
        for chunk in chunks[: len(chunks) // 4]:
            link.data_received(chunk)
        profiler = cProfile.Profile()
        began = time.process_time()
        if profile:
            profiler.enable()
        for number, chunk in enumerate(chunks):
            link.data_received(chunk)
            if number % 64 == 0:
                await asyncio.sleep(0)
        profiler.disable()
        taken = time.process_time() - began
        link.connection_lost(None)
        server.lost(link)
        await broker.stop()
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
