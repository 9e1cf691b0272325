"""Requests to masters, tried again until their time is over.

Owns        the time of a request and of its tries, the error when all failed.
Must not know   what is stored, batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.client.wire import (
    SENT_TO_THE_SAME_QUEUE,
    STORED_UNSURELY,
    ClientInstance,
    Outgoing,
    Sender,
    is_of_slave,
    refusal,
)
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.spark.sink.sending import WriteFailed

__all__ = ["Calls", "Patience", "all_of"]

_log = get_logger(__name__)
_PAUSE_MAX_SECONDS = 5.0
T = TypeVar("T")


async def all_of(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do them all at once, begun in their order; raises the first of their errors when all have ended."""
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if outcome is not None:
            raise outcome


@dataclass(slots=True)
class Patience:
    """The time left for one piece of work. `doing`: what it does, for its error."""

    client: ClientInstance
    queue: MessageQueue
    doing: str
    until: float
    pause: float
    warnings: RareWarnings
    tries: int = 0

    async def after(self, error: RocketLakeError, *, may_pass: bool = True) -> None:
        """Pause before the next try. Raises WriteFailed if there is none."""
        self.tries += 1
        if not may_pass or self.client.clock.monotonic() + self.pause > self.until:
            raise WriteFailed(
                f"{self.doing} failed after {self.tries} tries: {error.what}",
                where=error.where,
                hint=error.hint or "look at the broker; 'deliveryTimeoutMs' lets the sink try for longer",
            ) from error
        # A broker that is away fails hundreds of requests at once.
        self.warnings.warn(self.doing, "rocketmq sink: %s, try %d: %s", self.doing, self.tries, error)
        await self.client.after_break(self.queue, self.pause)
        self.pause = min(2 * self.pause, _PAUSE_MAX_SECONDS)


class Calls:
    """The requests of one query in this process. Times in milliseconds."""

    def __init__(self, client: ClientInstance, group: str, *, timeout_ms: int, patience_ms: int, pause_ms: int) -> None:
        """`group`: of the producer whose half messages these are."""
        self.client = client
        self.group = group
        self.retries = 0
        self._sender = Sender(group)
        self._warnings = RareWarnings(_log, clock=client.clock)
        self._timeout_ms = timeout_ms
        self._patience = patience_ms / 1000
        self._pause = pause_ms / 1000

    def patience(self, queue: MessageQueue, doing: str) -> Patience:
        """The whole time for a piece of work that begins now."""
        until = self.client.clock.monotonic() + self._patience
        return Patience(self.client, queue, doing, until, self._pause, self._warnings)

    async def store(self, queue: MessageQueue, outgoing: Outgoing, doing: str) -> SendReplyHeader:
        """Send until the broker says that it is stored as safely as its settings ask: maybe more than once."""
        patience = self.patience(queue, doing)
        while True:
            try:
                command = self._sender.command(outgoing, queue, self.client.clock.now_ms())
                answer = await self.invoke(queue, command)
                if answer.code == ResponseCode.SUCCESS and not is_of_slave(answer):
                    return answer.header(SendReplyHeader)
                error: RocketLakeError = refusal(answer, int(RequestCode.SEND_MESSAGE_V2), queue.broker_name)
                may_pass = answer.code in SENT_TO_THE_SAME_QUEUE or answer.code in STORED_UNSURELY
            except (LinkError, RemoteError) as broken:
                error, may_pass = broken, True
            self.retries += 1
            await patience.after(error, may_pass=may_pass)

    async def invoke(self, queue: MessageQueue, command: Command) -> Command:
        """One try at the master. Raises LinkError."""
        client = self.client
        address = client.routes.master(queue.broker_name) or await client.master(queue.broker_name, queue.topic)
        return await client.invoke_at_master(address, queue, command, self._timeout_ms)

    async def read(self, queue: MessageQueue, doing: str, ask: Callable[[str, int], Awaitable[T]]) -> T:
        """The outcome of `ask(address, timeout_ms)` at the master, in the end."""
        patience = self.patience(queue, doing)
        while True:
            try:
                return await self.client.at_master(
                    queue.broker_name, queue.topic, lambda address: ask(address, self._timeout_ms)
                )
            except (LinkError, RemoteError) as error:
                await patience.after(error)
