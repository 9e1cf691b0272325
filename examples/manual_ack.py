"""Acknowledge later: `rocketlake up` in one terminal, `python examples/manual_ack.py` in another.

The listener puts each message into a queue of its own program. Another task writes them in groups of ten, and only then
acknowledges them.
"""

from __future__ import annotations

import asyncio
import sys

from rocketlake import ConsumerConfig, Delivery, Message, Producer, PushConsumer, manual_ack

ORDERS = 25


async def main(namesrv: str) -> None:
    """Send some orders, and write them in groups."""
    waiting: asyncio.Queue[Delivery] = asyncio.Queue()
    all_written, written = asyncio.Event(), set[bytes]()

    async def write_groups() -> None:
        while True:
            group = [await waiting.get()]
            while len(group) < 10 and not waiting.empty():
                group.append(waiting.get_nowait())
            written.update(delivery.message.body for delivery in group)  # one write for all of them
            for delivery in group:
                delivery.ack()
            if len(written) >= ORDERS:  # a topic that others use, too, has more
                all_written.set()

    async with Producer("shop", namesrv=namesrv) as producer:
        await producer.send_batch([Message("orders", b"order %d" % number) for number in range(ORDERS)])

    listener = manual_ack(waiting.put, within_ms=30_000)
    config = ConsumerConfig(concurrency=100)  # so many messages may wait for their ack at once
    consumer = PushConsumer("books", listener=listener, namesrv=namesrv, from_where="first", config=config)
    consumer.subscribe("orders")
    async with consumer:
        writing = asyncio.create_task(write_groups())
        await all_written.wait()
        writing.cancel()
    print(f"{len(written)} orders written and acknowledged")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
