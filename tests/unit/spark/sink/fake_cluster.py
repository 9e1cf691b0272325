"""A cluster that keeps what it is sent, on a loop of its own thread, and fails when told to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rocketlake.base.errors import RocketLakeError
from rocketlake.client.calls.send import Outgoing
from rocketlake.client.errors import NoRoute
from rocketlake.codec import property_text
from rocketlake.codec.record_batch import decode_batch
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.command import Command
from rocketlake.protocol.response_code import ResponseCode


@dataclass
class Got:
    """One message as a broker got it."""

    body: bytes
    properties: dict[str, str]


@dataclass
class FakeCluster:
    """`answer(queue, outgoing)` decides: an exception, or a response code; None: store it."""

    topics: dict[str, tuple[MessageQueue, ...]]
    answer: Callable[[MessageQueue, Outgoing], BaseException | int | None] = lambda queue, outgoing: None
    away: list[RocketLakeError] = field(default_factory=list)
    known: int = 0
    next_number: int = 0
    stored: dict[MessageQueue, list[Got]] = field(default_factory=dict)
    requests: list[tuple[MessageQueue, Outgoing]] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    under_way: dict[MessageQueue, int] = field(default_factory=dict)
    under_way_max: int = 0
    overlaps: int = 0
    now: float = 0.0
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def run_soon(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def queues(self, topic: str, *, must_exist: bool) -> tuple[MessageQueue, ...]:
        if self.away:
            raise self.away.pop()
        if topic not in self.topics:
            raise NoRoute(topic, ["127.0.0.1:9876"])
        return self.topics[topic]

    async def send(self, queue: MessageQueue, outgoing: Outgoing, timeout_ms: int) -> Command:
        self.overlaps += self.under_way.get(queue, 0)
        self.under_way[queue] = self.under_way.get(queue, 0) + 1
        self.under_way_max = max(self.under_way_max, sum(self.under_way.values()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.under_way[queue] -= 1
        self.requests.append((queue, outgoing))
        outcome = self.answer(queue, outgoing)
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome in (None, ResponseCode.FLUSH_DISK_TIMEOUT):
            self.stored.setdefault(queue, []).extend(messages_of(outgoing))
        fields = {"msgId": "0", "queueId": str(queue.queue_id), "queueOffset": "0", "rlKnown": str(self.known)}
        fields["rlNext"] = str(self.next_number)
        return Command(outcome or ResponseCode.SUCCESS, remark="because", fields=fields)

    async def pause(self, queue: MessageQueue, seconds: float) -> None:
        await self.sleep(seconds)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def monotonic(self) -> float:
        return self.now

    def all_stored(self) -> list[Got]:
        return [message for messages in self.stored.values() for message in messages]


def messages_of(outgoing: Outgoing) -> list[Got]:
    if outgoing.count == 0:
        return [Got(outgoing.body, property_text.decode(outgoing.properties))]
    shared = property_text.decode(outgoing.properties)
    entries = decode_batch(outgoing.body)
    assert len(entries) == outgoing.count
    return [Got(body, property_text.decode(properties) | shared) for _flag, body, properties in entries]


def queues_of(topic: str, count: int = 4, broker: str = "broker-a") -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue(topic, broker, number) for number in range(count))


@contextmanager
def running(cluster: FakeCluster) -> Iterator[FakeCluster]:
    thread = threading.Thread(target=cluster.loop.run_forever, daemon=True)
    thread.start()
    try:
        yield cluster
    finally:
        cluster.loop.call_soon_threadsafe(cluster.loop.stop)
        thread.join(10)
        if begun := asyncio.all_tasks(cluster.loop):  # a sink's task that failed leaves some behind
            for work in begun:
                work.cancel()
            cluster.loop.run_until_complete(asyncio.wait(begun))
        cluster.loop.close()
