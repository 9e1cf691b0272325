"""Many small messages, fast: `rocketlake up` in one terminal, `python examples/background_batches.py` in another.

Each task sends its messages as ever, and gets its own results. The producer puts the messages that are sent at the same
time into one request.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable

from rocketlake import Message, Producer, ProducerConfig, SendFailed
from rocketlake.client.hooks import Hooks, SendEvent

TASKS, MESSAGES = 100, 50


async def measure(producer: Producer, sensor: int, values: Iterable[int]) -> Counter[str]:
    """Send the values of one sensor, in order: the sends of one key go to one queue."""
    ends: Counter[str] = Counter()
    for value in values:
        try:
            result = await producer.send(Message("readings", b"%d %d" % (sensor, value)), key=sensor)
        except SendFailed as error:
            print(f"sensor {sensor}, value {value}: {error}")
            ends["failed"] += 1
        else:
            ends[result.status.name] += 1
    return ends


async def main(namesrv: str) -> None:
    """Send the values of a hundred sensors at the same time."""
    requests: list[int] = []

    def note(event: SendEvent) -> None:
        requests.append(len(event.messages))

    config = ProducerConfig(auto_batch=True, auto_batch_delay_ms=5)
    async with Producer("sensors", namesrv=namesrv, config=config, hooks=Hooks(after_send=[note])) as producer:
        tasks = [measure(producer, sensor, range(MESSAGES)) for sensor in range(TASKS)]
        ends = sum(await asyncio.gather(*tasks), Counter())
    print(f"{ends.total()} sends, {ends['OK']} of them OK, in {len(requests)} requests")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
