"""Our Python client (rocketlake.client): sends of 1 KiB, alone or in background batches, or a counting consumer."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import uvloop

from rocketlake import FirstOffset, Message, Producer, ProducerConfig, PushConsumer
from rocketlake.model.message import StoredMessage

BODY = bytes(range(256)) * 4
OUTSTANDING = 256


async def measure(count: list[int], warm: float, seconds: float, idle_seconds: float) -> None:
    """Figures of `count[0]` after the warm-up, until the time is up or nothing more comes."""
    await asyncio.sleep(warm)
    start, began, cpu = count[0], time.monotonic(), time.process_time()
    last, changed = start, began
    while (now := time.monotonic()) < began + seconds and now < changed + idle_seconds:
        await asyncio.sleep(0.05)
        if count[0] != last:
            last, changed = count[0], time.monotonic()
    messages = max(1, last - start)
    cpu = time.process_time() - cpu
    print(json.dumps({"messages_per_second": messages / (changed - began), "client_cpu_us": cpu * 1e6 / messages}))


async def send(namesrv: str, topic: str, warm: float, seconds: float, config: ProducerConfig | None = None) -> None:
    count = [0]

    async def one(producer: Producer) -> None:
        while True:
            await producer.send(Message(topic, BODY))
            count[0] += 1

    async with Producer("bench_ours", namesrv=namesrv, config=config) as producer:
        senders = [asyncio.create_task(one(producer)) for _ in range(OUTSTANDING)]
        await measure(count, warm, seconds, seconds)
        for sender in senders:
            sender.cancel()
        ended = await asyncio.gather(*senders, return_exceptions=True)
    if failures := [error for error in ended if not isinstance(error, asyncio.CancelledError)]:
        sys.exit(f"{len(failures)} senders failed: {failures[0]!r}")


async def send_batches(namesrv: str, topic: str, warm: float, seconds: float) -> None:
    await send(namesrv, topic, warm, seconds, ProducerConfig(auto_batch=True))


async def consume(namesrv: str, topic: str, warm: float, seconds: float) -> None:
    count, first = [0], asyncio.Event()

    async def listener(batch: list[StoredMessage]) -> None:
        for message in batch:
            count[0] += len(message.body) == len(BODY)
        first.set()

    consumer = PushConsumer("bench_ours", namesrv=namesrv, listener=listener, from_where=FirstOffset.FIRST)
    consumer.subscribe(topic)
    async with consumer:
        await asyncio.wait_for(first.wait(), 60)
        await measure(count, warm, seconds, 2.0)


def main() -> None:
    work, address, topic, warm, seconds = sys.argv[1:]
    works = {"send": send, "batches": send_batches, "consume": consume}
    uvloop.run(works[work](address, topic, float(warm), float(seconds)))


if __name__ == "__main__":
    main()
