"""Our Python client asks and answers in one process, one request of 1 KiB after the other."""

from __future__ import annotations

import json
import sys
import time

import uvloop

from rocketlake import FirstOffset, Message, Producer, PushConsumer
from rocketlake.model.message import StoredMessage

BODY = bytes(1024)


async def answer(request: StoredMessage) -> bytes:
    return request.body


async def measure(namesrv: str, topic: str, warm: float, seconds: float) -> None:
    async with Producer("bench_requests", namesrv=namesrv) as producer:
        listener = producer.replier(answer)
        consumer = PushConsumer("bench_answers", namesrv=namesrv, listener=listener, from_where=FirstOffset.FIRST)
        consumer.subscribe(topic)
        async with consumer:

            async def ask_for(seconds: float, timeout_ms: int = 10_000) -> list[float]:
                taken: list[float] = []
                end = time.monotonic() + seconds
                while (begun := time.monotonic()) < end or not taken:
                    await producer.request(Message(topic, BODY), timeout_ms=timeout_ms)
                    taken.append(time.monotonic() - begun)
                return sorted(taken)

            await ask_for(0, timeout_ms=60_000)
            await ask_for(warm)
            taken = await ask_for(seconds)
    p50, p99 = (round(taken[len(taken) * part // 100] * 1e6) for part in (50, 99))
    print(json.dumps({"requests": len(taken), "p50_us": p50, "p99_us": p99}))


def main() -> None:
    namesrv, topic, warm, seconds = sys.argv[1:]
    uvloop.run(measure(namesrv, topic, float(warm), float(seconds)))


if __name__ == "__main__":
    main()
