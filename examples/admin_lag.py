"""Ask a cluster and set a group back: `rocketlake up` in one terminal, `python examples/admin_lag.py` in another.

Lists topics, shows how far a group is behind, and has it read a topic again. Without asyncio: rocketlake.admin.sync.
"""

from __future__ import annotations

import asyncio
import sys

from rocketlake import Consumer, Message, Producer
from rocketlake.admin import Admin


async def main(namesrv: str) -> None:
    """Three orders, a group that has read them, and the group set back to the first one."""
    async with Producer("shop", namesrv=namesrv) as producer:
        for number in range(3):
            await producer.send(Message("orders", b"order %d" % number))
    async with Consumer("billing", "orders", namesrv=namesrv, from_where="first") as consumer:
        for _ in range(3):
            await consumer.receive(timeout_ms=30_000)

    async with Admin(namesrv=namesrv) as admin:
        print("topics", await admin.topics())
        orders = await admin.topic("orders")
        print("orders has", orders.messages, "messages")
        print("lag of billing", (await admin.group("billing")).lag)

        plan = await admin.plan_reset("billing", "orders", "earliest")
        await admin.reset_group(plan)
        print("read again", plan.again, "lag now", (await admin.group("billing")).lag)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
