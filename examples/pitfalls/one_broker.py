"""A topic that is made by its first send lies on one broker only: `python one_broker.py NAMESRV`, with two brokers."""

from __future__ import annotations

import asyncio
import sys

from rocketlake import Message, Producer


async def main(namesrv: str) -> None:
    """Send to a topic that nobody has created, and see where its queues are."""
    async with Producer("shop", namesrv=namesrv) as producer:
        brokers = {queue.broker_name for queue in await producer.queues("made_by_a_send")}
        await producer.send(Message("made_by_a_send", b"x"))
    async with Producer("shop", namesrv=namesrv) as producer:
        has = {queue.broker_name for queue in await producer.queues("made_by_a_send")}
    print(f"{len(brokers)} brokers would have taken the message; the topic has queues on {len(has)}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
