"""The two Python sides of the demo: a producer that replays the flights, and a consumer group that counts them live.

Owns        sending in order per aircraft, counting each message once.
Must not know   Spark.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence

import pandas as pd

from demo.flights import TOPIC, events
from rocketlake import FirstOffset, Message, Producer, PushConsumer
from rocketlake.base.errors import RemoteError
from rocketlake.client.config import ConsumerConfig
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.response_code import ResponseCode

BATCH = 200


class Replay:
    """Sends every flight; `sent` grows as the broker acknowledges."""

    def __init__(self, namesrv: str, queues: Sequence[MessageQueue]) -> None:
        self._namesrv = namesrv
        self._queues = sorted(queues)
        self.sent = 0

    async def run(self, flights: pd.DataFrame) -> None:
        """One sender per queue: its next batch leaves when the one before is acknowledged, so order holds."""
        async with Producer("demo-airports", namesrv=self._namesrv) as producer:
            lines: list[asyncio.Queue[list[Message]]] = [asyncio.Queue(2) for _ in self._queues]
            async with asyncio.TaskGroup() as senders:
                for queue, line in zip(self._queues, lines, strict=True):
                    senders.create_task(self._send(producer, queue, line))
                await self._announce(flights, lines)

    async def _announce(self, flights: pd.DataFrame, lines: list[asyncio.Queue[list[Message]]]) -> None:
        waiting: list[list[Message]] = [[] for _ in lines]
        for number, event in events(flights, len(lines)):
            waiting[number].append(event)
            if len(waiting[number]) == BATCH:
                await lines[number].put(waiting[number])
                waiting[number] = []
        for line, rest in zip(lines, waiting, strict=True):
            await line.put(rest)
            await line.put([])

    async def _send(self, producer: Producer, queue: MessageQueue, line: asyncio.Queue[list[Message]]) -> None:
        while batch := await line.get():
            await self._send_batch(producer, queue, batch)
            self.sent += len(batch)

    async def _send_batch(self, producer: Producer, queue: MessageQueue, batch: list[Message]) -> None:
        while True:
            try:
                await producer.send_batch(batch, queue=queue)
                return
            except RemoteError as error:
                # "Busy" means that nothing of the batch was stored, so it may be sent again.
                if error.code != ResponseCode.SYSTEM_BUSY:
                    raise
                await asyncio.sleep(0.2)


class LiveCount:
    """A consumer group of two members that counts flights by carrier (the tag), each message once."""

    def __init__(self, namesrv: str) -> None:
        self.by_carrier: Counter[str] = Counter()
        self._seen: defaultdict[MessageQueue, set[int]] = defaultdict(set)
        config = ConsumerConfig(batch_size=256, pull_batch_size=256)
        self._members = [
            PushConsumer(
                "demo-counters", namesrv=namesrv, listener=self._count, from_where=FirstOffset.FIRST, config=config
            )
            for _ in range(2)
        ]

    @property
    def counted(self) -> int:
        """Messages counted so far."""
        return self.by_carrier.total()

    def _count(self, messages: list[StoredMessage]) -> None:
        # Delivery is "at least once": a rebalance between the members may bring a message twice.
        for message in messages:
            seen = self._seen[message.message_queue]
            if message.queue_offset not in seen:
                seen.add(message.queue_offset)
                self.by_carrier[message.tags or "?"] += 1

    async def __aenter__(self) -> LiveCount:
        for member in self._members:
            member.subscribe(TOPIC, "*")
            await member.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for member in self._members:
            await member.stop()
