"""Send and receive values in place of bytes: `rocketlake up` in one terminal, `python examples/payload.py` in another.

A body that is no order goes to the dead letters at once, with the reason; the others come.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from rocketlake import Consumer, Message, Payload, Producer


@dataclass
class Order:
    """What is sent, as JSON."""

    fruit: str
    count: int
    city: str


async def main(namesrv: str) -> None:
    """Send two orders and something else, and print the orders."""
    orders = Payload(Order)
    async with Producer("shop", namesrv=namesrv) as producer:
        for body in (orders.body(Order("apples", 3, "Rome")), b"no order", orders.body(Order("pears", 5, "Oslo"))):
            await producer.send(Message("fruit", body), key="one queue, so that they come in order")
    async with Consumer("billing", "fruit", namesrv=namesrv, from_where="first", orderly=True) as consumer:
        left = 2
        async for order, _message in orders.read(consumer):
            print(f"{order.count} {order.fruit} to {order.city}")
            left -= 1
            if not left:
                break


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
