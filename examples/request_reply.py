"""Ask and answer: `rocketlake up` in one terminal, `python examples/request_reply.py` in another.

One program plays both sides here. The consumers that answer may run anywhere, be many, and be written in Java.
"""

from __future__ import annotations

import asyncio
import sys

from rocketlake import Message, NoReply, Producer, PushConsumer, StoredMessage

PRICES = {"apple": "0.35", "pear": "0.52"}


async def quote(request: StoredMessage) -> bytes:
    """The answer to a request."""
    return PRICES.get(request.body.decode(), "not sold").encode()


async def main(namesrv: str) -> None:
    """Ask for three prices."""
    async with Producer("shop", namesrv=namesrv) as producer:
        # The same producer asks and answers here. A program that only answers has one, too: it sends the answers.
        consumer = PushConsumer("quotes", listener=producer.replier(quote), namesrv=namesrv, from_where="first")
        consumer.subscribe("prices")
        async with consumer:
            for fruit in ("apple", "pear", "plum"):
                try:
                    answer = await producer.request(Message("prices", fruit.encode()), timeout_ms=30_000)
                except NoReply as error:
                    print(f"{fruit}: {error}")
                else:
                    print(f"{fruit}: {answer.body.decode()}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
