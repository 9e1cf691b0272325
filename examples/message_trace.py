"""What happened to my message: `rocketlake up` in one terminal, `python examples/message_trace.py` in another.

With `trace=True` the clients tell the cluster of each send and of each call of a listener. The last line names the
command that shows it all.
"""

from __future__ import annotations

import asyncio
import sys

from rocketlake import ClientConfig, ConsumeResult, Message, Producer, PushConsumer, StoredMessage


async def main(namesrv: str) -> None:
    """Send one message, fail it once, consume it the second time."""
    client = ClientConfig(namesrv=namesrv, trace=True)
    done = asyncio.Event()

    async def pack(messages: list[StoredMessage]) -> ConsumeResult:
        if messages[0].reconsume_times == 0:
            return ConsumeResult.later(delay_level=1)
        done.set()
        return ConsumeResult.SUCCESS

    async with Producer("shop", client_config=client) as producer:
        result = await producer.send(Message("parcels", b"a book", keys="order-17"))
    consumer = PushConsumer("packers", listener=pack, client_config=client, from_where="first")
    consumer.subscribe("parcels")
    async with consumer:
        await done.wait()
    print(f"rocketlake message trace {result.message_id} -n {namesrv}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
