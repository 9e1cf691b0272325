"""A member of an ordered group in a process of its own: `python ordered_reader.py NAMESRV FILE`, until SIGTERM.

It writes a line to the end of FILE at the start and at the end of each message: all members write to one file.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from rocketlake import ConsumerConfig, PushConsumer, StoredMessage


async def main(namesrv: str, file: str) -> None:
    seen = os.open(file, os.O_WRONLY | os.O_APPEND)

    async def listen(messages: list[StoredMessage]) -> None:
        for message in messages:
            os.write(seen, b"begin %d %s\n" % (os.getpid(), message.body))
            await asyncio.sleep(0.001)
            os.write(seen, b"end %d %s\n" % (os.getpid(), message.body))

    config = ConsumerConfig(rebalance_interval_ms=1000)
    consumer = PushConsumer(
        "readers", listener=listen, orderly=True, from_where="first", namesrv=namesrv, config=config
    )
    consumer.subscribe("Keys")
    is_over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, is_over.set)
    async with consumer:
        await is_over.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
