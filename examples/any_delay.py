"""Deliver at any time: `rocketlake up` in one terminal, `python examples/any_delay.py` in another.

Times are kept by the broker: the sender may end meanwhile, and the broker may be started anew.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from rocketlake import Message, Producer, PushConsumer, StoredMessage


async def main(namesrv: str) -> None:
    """Send three reminders, the last one first, and print them as they come."""
    came: asyncio.Queue[str] = asyncio.Queue()

    async def remind(messages: list[StoredMessage]) -> None:
        for message in messages:
            came.put_nowait(message.body.decode())

    consumer = PushConsumer("readers", listener=remind, namesrv=namesrv, from_where="first")
    consumer.subscribe("reminders")
    async with Producer("reminders", namesrv=namesrv) as producer:
        now = datetime.now(UTC)
        await producer.send(Message("reminders", b"at a time", deliver_at=now + timedelta(seconds=6)))
        await producer.send(Message("reminders", b"after a delay", delay=3))
        await producer.send(Message("reminders", b"at once"))
    async with consumer:
        for _ in range(3):
            print(await came.get())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
