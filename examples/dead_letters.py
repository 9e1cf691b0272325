"""Repair what a group gave up: `rocketlake up` in one terminal, `python examples/dead_letters.py` in another.

A consumer that cannot read an amount gives the order up. Its dead letter says why; repaired, it comes again.
"""

from __future__ import annotations

import asyncio
import sys

from rocketlake import ConsumeResult, DeadLetters, Message, Producer, PushConsumer, StoredMessage
from rocketlake.model.property_names import LAST_ERROR


async def main(namesrv: str) -> None:
    """Send two orders, one of them with a bad amount, and book both."""
    booked: asyncio.Queue[int] = asyncio.Queue()

    async def book(messages: list[StoredMessage]) -> ConsumeResult | None:
        for message in messages:
            try:
                amount = int(message.body)
            except ValueError as error:  # it will not get better by waiting: give it up at once
                return ConsumeResult.later(delay_level=-1, error=str(error))
            booked.put_nowait(amount)
        return None

    async with Producer("shop", namesrv=namesrv) as producer:
        await producer.send(Message("orders", b"7 euros"))
        await producer.send(Message("orders", b"35"))

    consumer = PushConsumer("billing", listener=book, namesrv=namesrv, from_where="first")
    consumer.subscribe("orders")
    async with consumer, DeadLetters("billing", namesrv=namesrv) as letters:
        print("booked", await booked.get())
        while not (found := [letter async for letter in letters.read()]):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        for letter in found:
            print("given up:", letter.properties[LAST_ERROR])
            await letters.send_again(letter, body=letter.body.removesuffix(b" euros"))
        print("booked", await booked.get())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
