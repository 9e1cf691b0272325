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
import tempfile
import time
from pathlib import Path

from bench.generator import Template
from bench.micro.chunk import Nowhere
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.model.subscription import parse_subscription
from rocketlake.net.server_link import ServerLink
from rocketlake.protocol.command import Codec, Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.headers.pull import PULL_COMMIT_OFFSET, PULL_SUSPEND, PullHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.config import StoreConfig

QUEUES = range(100, 356)
MESSAGES = 32_000
MESSAGES_A_ROUND = (1, 4, 16)


def pull(queue_id: int, offset: int) -> bytes:
    header = PullHeader(
        consumer_group="readers", topic="BenchmarkTest", queue_id=queue_id, queue_offset=offset, max_msg_nums=32,
        sys_flag=PULL_SUSPEND | (PULL_COMMIT_OFFSET if offset else 0), commit_offset=offset,
        suspend_timeout_millis=15_000, sub_version=1, expression_type="TAG",
    )  # fmt: skip
    return b"".join(map(bytes, encode_command(Command.request(RequestCode.PULL_MESSAGE, header), Codec.JSON)))


async def measure(count: int, *, by_runs: bool, profile: bool = False) -> float:
    """Microseconds of CPU for a message, `count` of them a round."""
    with tempfile.TemporaryDirectory(prefix="rocketlake-live-") as folder:
        config = BrokerConfig(listen_port=0, fast_listen_port=0, store_root=Path(folder) / "store", fast_failure=False)
        broker = Broker(config, StoreConfig())
        await broker.start()
        if not by_runs:
            broker._dispatcher.after.append(lambda _request, _reply: None)  # see Dispatcher.run
        server = broker._servers[0]
        sender, reader = (
            ServerLink(
                server, server.dispatcher, server._limits, server._clock, server._codec, server._warnings, server._turns
            )
            for _ in range(2)
        )
        for link in (sender, reader):
            link.connection_made(Nowhere())
        everything = [parse_subscription("BenchmarkTest", "*", version=1)]
        broker.consumers.register("readers", reader, "reader", "CONSUME_PASSIVELY", "CLUSTERING", "", everything)
        template = Template("BenchmarkTest", QUEUES, 1024)
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
        if (got := broker.stats.got_messages) != MESSAGES:
            raise RuntimeError(f"{got} messages were pulled, not {MESSAGES}")
        for link in (sender, reader):
            link.connection_lost(None)
            server.lost(link)
        await broker.stop()
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
