"""Where a group begins to read, and when `from_where` says nothing: `python first_position.py NAMESRV`."""

from __future__ import annotations

import asyncio
import sys

from rocketlake import Consumer, Message, Producer, StoredMessage


def body(message: StoredMessage | None) -> str:
    """What it says; nothing if none came."""
    return message.body.decode() if message else "nothing"


async def main(namesrv: str) -> None:
    """Send one message before any group exists; groups start with the default, "last", and with "first", twice."""
    async with Producer("shop", namesrv=namesrv) as producer:
        await producer.send(Message("early", b"a message from before"))
    async with Consumer("a", "early", namesrv=namesrv) as consumer:
        print("last, in a young topic:", body(await consumer.receive(timeout_ms=20_000)))
    for again in ("", ", the second time"):
        async with Consumer("b", "early", namesrv=namesrv, from_where="first") as consumer:
            wait_ms = 2000 if again else 20_000
            print(f"first{again}:", body(await consumer.receive(timeout_ms=wait_ms)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
