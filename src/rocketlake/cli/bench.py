"""`rocketlake bench`: how many messages a cluster takes and gives from here, and how long one takes.

Owns        the measurement, its topic, its figures.
Must not know   how messages travel (client).

One process sends and reads: it finds what a client of this machine gets, and a slow network or disk, not the limit of a
cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run
from rocketlake.cli.table import OUTPUT_DEFAULT, Output, amount, show

if TYPE_CHECKING:
    from rocketlake.admin import Admin
    from rocketlake.model.message_queue import MessageQueue

__all__ = ["bench"]

_PRODUCER, _CONSUMER = "TOOLS_PRODUCER", "TOOLS_CONSUMER"
_QUIET_SECONDS = 10.0
_HEADINGS = ("phase", "messages", "seconds", "messages/s", "MB/s", "p50 ms", "p99 ms", "max ms")


@dataclass(slots=True)
class _Phase:
    """What one phase did: seconds of each message that was waited for, and of all together."""

    name: str
    took: list[float] = field(default_factory=list)
    messages: int = 0
    seconds: float = 0.0

    def row(self, size: int) -> tuple[object, ...]:
        """Figures: rates, and the time of a message by its rank."""
        rate = self.messages / self.seconds if self.seconds else 0.0
        ranks = sorted(self.took)
        shares = [ranks[min(int(len(ranks) * share), len(ranks) - 1)] if ranks else None for share in (0.5, 0.99, 1.0)]
        times = [None if each is None else round(each * 1000, 2) for each in shares]
        return self.name, self.messages, round(self.seconds, 2), round(rate), round(rate * size / 1e6, 2), *times


def bench(
    messages: Annotated[int, typer.Option("--messages", min=1, help="Messages to send and to read.")] = 10_000,
    size: Annotated[int, typer.Option("--size", min=1, max=4_000_000, help="Bytes of a body.")] = 1024,
    senders: Annotated[
        int, typer.Option("--senders", min=1, max=1000, help="So many wait for their answers at a time.")
    ] = 32,
    topic: Annotated[
        str,
        typer.Option("--topic", help="An empty topic that is there; else one is made and deleted.", show_default=False),
    ] = "",
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Measure sending and reading from here: rates, and how long a send waits for its answer.

    It uses a topic of its own, and deletes it. It is load: think of the others who use the cluster.
    """
    phases = run(_measure(namesrv, topic, messages, size, senders))
    show(_HEADINGS, [phase.row(size) for phase in phases], output)


async def _measure(namesrv: str, topic: str, messages: int, size: int, senders: int) -> list[_Phase]:
    from rocketlake.admin import Admin
    from rocketlake.base.errors import ConflictError

    async with Admin(namesrv=namesrv) as admin:
        own = topic or f"rocketlake_bench_{time.time_ns() // 1_000_000}"
        if topic:
            if kept := (await admin.topic(topic)).messages:
                what = (
                    f"topic {topic} holds {amount(kept, 'message')}, and its readers would get those of the measurement"
                )
                raise ConflictError(what, hint="name an empty topic, or none")
        else:
            await admin.create_topic(own)
        try:
            begin = await _ends(admin, own)
            sent = await _send(namesrv, own, messages, size, senders)
            return [sent, await _read(namesrv, own, begin, messages)]
        finally:
            if not topic:
                await admin.delete_topic(own, force=True)


async def _ends(admin: Admin, topic: str) -> dict[tuple[str, int], int]:
    return {(each.broker, each.queue_id): each.next_offset for each in (await admin.topic(topic)).queues}


async def _send(namesrv: str, topic: str, messages: int, size: int, senders: int) -> _Phase:
    from rocketlake import Message, Producer

    phase, body = _Phase("send"), bytes(size)
    numbers: Iterator[int] = iter(range(messages))

    async def sender(producer: Producer) -> None:
        for _ in numbers:
            began = time.perf_counter()
            await producer.send(Message(topic, body))
            phase.took.append(time.perf_counter() - began)

    async with Producer(_PRODUCER, namesrv=namesrv) as producer:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(min(senders, messages)):
                group.create_task(sender(producer))
        phase.seconds, phase.messages = time.perf_counter() - began, len(phase.took)
    return phase


async def _read(namesrv: str, topic: str, begin: dict[tuple[str, int], int], messages: int) -> _Phase:
    from rocketlake.base.errors import RocketLakeError
    from rocketlake.client.consumer.pull import PullConsumer

    phase = _Phase("read")
    async with PullConsumer(_CONSUMER, namesrv=namesrv, auto_commit=False) as consumer:
        queues: list[MessageQueue] = await consumer.fetch_queues(topic)
        began = time.perf_counter()  # before the first seek: reading ahead begins there
        consumer.assign(queues)
        for queue in queues:
            await consumer.seek(queue, begin.get((queue.broker_name, queue.queue_id), 0))
        while phase.messages < messages:
            found = await consumer.poll(timeout_ms=_QUIET_SECONDS * 1000, max_messages=1000)
            if not found:
                what = f"{amount(messages - phase.messages, 'message')} of {messages} did not come back"
                raise RocketLakeError(
                    what, where=f"topic {topic}", hint="look at the brokers: `rocketlake broker list`"
                )
            phase.messages += len(found)
        phase.seconds = time.perf_counter() - began
    return phase
