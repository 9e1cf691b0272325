"""Pops a topic from its start, 32 at a time, and acknowledges each batch in one request; or keeps what it popped.

`python pops.py BROKER TOPIC GROUP WORKERS [COUNT]`: with COUNT it acknowledges nothing, and ends when it holds so many
messages, invisible for hours. Prints "ms=T popped=N acked=N" every half second, from the first message on.
"""

from __future__ import annotations

import asyncio
import sys
import time

import uvloop

from rocketlake.client.calls import pop as pops
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.pop import ANY_QUEUE
from rocketlake.model.subscription import Subscription
from rocketlake.net.client import NetClient

INVISIBLE_MS = 60_000
HELD_MS = 6 * 3600_000


class Load:
    def __init__(self, broker: str, topic: str, group: str, count: int) -> None:
        self._broker, self._topic, self._group, self._count = broker, topic, group, count
        self.popped = self.acked = 0

    async def work(self, net: NetClient) -> None:
        queue = MessageQueue(self._topic, "", ANY_QUEUE)
        subscription = Subscription(self._topic, "*")
        while not self._count or self.popped < self._count:
            answer = await pops.pop(
                net,
                self._broker,
                queue,
                group=self._group,
                subscription=subscription,
                max_messages=pops.POP_MAX,
                invisible_ms=HELD_MS if self._count else INVISIBLE_MS,
                poll_ms=1000,
                from_first=True,
            )
            self.popped += len(answer.messages)
            if answer.messages and not self._count:
                handles = [(self._topic, pops.handle_of(message)) for message in answer.messages]
                await pops.ack_all(net, self._broker, self._group, handles)
                self.acked += len(handles)

    async def say(self) -> None:
        while True:
            if self.popped:
                print(f"ms={time.time() * 1000:.0f} popped={self.popped} acked={self.acked}", flush=True)
            await asyncio.sleep(0.5)


async def main(broker: str, topic: str, group: str, workers: str, count: str = "0") -> None:
    load = Load(broker, topic, group, int(count))
    async with NetClient() as net, asyncio.TaskGroup() as tasks:
        saying = tasks.create_task(load.say())
        working = [tasks.create_task(load.work(net)) for _ in range(int(workers))]
        await asyncio.wait(working)
        saying.cancel()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
