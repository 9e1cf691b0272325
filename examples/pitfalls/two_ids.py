"""A message has two ids: `python two_ids.py NAMESRV`."""

from __future__ import annotations

import asyncio
import sys

from rocketlake import Consumer, Message, Producer


async def main(namesrv: str) -> None:
    """Send a message, refuse it once, and look at its ids when it comes again."""
    async with Producer("shop", namesrv=namesrv) as producer:
        sent = await producer.send(Message("numbered", b"x"))
    async with Consumer("readers", "numbered", namesrv=namesrv, from_where="first") as consumer:
        first = await consumer.receive(timeout_ms=20_000)
        consumer.later(delay_level=1)
        again = await consumer.receive(timeout_ms=20_000)
    assert first is not None and again is not None
    print("message id, made by the producer: the same in every copy?", sent.message_id == again.message_id)
    print("offset id, the place in a log: the same in every copy?", first.offset_message_id == again.offset_message_id)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
