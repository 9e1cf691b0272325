"""Receive, work, acknowledge: `rocketlake up` in one terminal, `python examples/simple_consumer.py` in another.

Three workers take messages of one topic. Each message is handed out for a while, which is renewed while a worker has
it. One order fails at its first try: it is given back, and comes again to any of the workers.
"""

from __future__ import annotations

import asyncio
import sys

from rocketlake import Message, Producer, SimpleConsumer

ORDERS = 12


async def main(namesrv: str) -> None:
    """Send some orders, and let three workers pack them."""
    packed: set[bytes] = set()
    retried = 0

    async with Producer("shop", namesrv=namesrv) as producer:
        await producer.send_batch([Message("parcels", b"order %d" % number) for number in range(ORDERS)])

    async def pack(consumer: SimpleConsumer) -> None:
        nonlocal retried
        while len(packed) < ORDERS:
            for message in await consumer.receive(4, invisible_ms=30_000, await_ms=500, renew=True):
                if message.body == b"order 7" and message.reconsume_times == 0:
                    await consumer.change_invisible(message, 1000)  # back, for a second
                    continue
                await asyncio.sleep(0.01)  # the work
                packed.add(message.body)
                retried += message.reconsume_times
                await consumer.ack(message)

    async with SimpleConsumer("packers", "parcels", namesrv=namesrv, from_where="first") as consumer:
        await asyncio.gather(*(pack(consumer) for _ in range(3)))
    print(f"{len(packed)} orders packed, {retried} at the second try")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
