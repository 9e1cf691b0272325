"""Lite topics: `rocketlake up` in one terminal, `python examples/lite_topics.py` in another.

Each session of a chat is a lite topic of its own. The consumer takes two of them, and reads each in its order.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict

from rocketlake import LiteSimpleConsumer, Message, Producer
from rocketlake.admin import Admin

WORDS = ["hello", "how are you", "bye"]


async def main(namesrv: str) -> None:
    """Make the parent and its group, send to three sessions, read two of them."""
    async with Admin(namesrv=namesrv) as admin:
        await admin.create_topic("sessions", queues=4, attributes="+message.type=LITE", if_not_exists=True)
        await admin.create_group("chat", attributes="+lite.bind.topic=sessions")

    async with Producer("senders", namesrv=namesrv) as producer:
        for word in WORDS:
            for session in ("anna", "bert", "carl"):
                await producer.send(Message("sessions", word.encode(), lite_topic=session))

    said: dict[str, list[str]] = defaultdict(list)
    async with LiteSimpleConsumer("chat", "sessions", namesrv=namesrv) as consumer:
        await consumer.subscribe_lite("anna", "carl")
        while sum(map(len, said.values())) < 2 * len(WORDS):
            for message in await consumer.receive(invisible_ms=30_000, await_ms=5_000):
                said[message.lite_topic or ""].append(message.body.decode())
                await consumer.ack(message)
    for session, words in sorted(said.items()):
        print(f"{session}: {', '.join(words)}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
