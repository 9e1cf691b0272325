"""`async for message in consumer`: one message at a time, acknowledged when the next one is asked for.

Owns        handing messages of a push consumer to the user's loop, and the result of each message.
Must not know   pulling, queues (push.py).

Rule: a message counts as consumed when the next one is requested or the block ends without an error; with an error it
comes again (send-back: later, after 16 times in the dead letters). `stop()` settles nothing: the message in hand comes
again, as do messages fetched ahead and never handed out, to this member or another. One task reads; a second one that
asks at the same time is refused, because it would acknowledge the message of the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self, Unpack

from rocketlake.base.errors import UsageError
from rocketlake.base.settings.arguments import check_number
from rocketlake.base.settings.forms import AsyncForms
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.filters import wanted_topics
from rocketlake.client.consumer.group_consumer import PushSettings, spelled_out
from rocketlake.client.consumer.listener import ConsumeResult
from rocketlake.client.consumer.push import PushConsumer
from rocketlake.client.consumer.running import NotConsumed
from rocketlake.client.errors import NotRunning
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import TAG

Settle = asyncio.Future[ConsumeResult | None]


class Consumer(AsyncForms):
    """`async with Consumer("group", "topic", namesrv=...) as consumer: async for message in consumer: ...`.

    `expression` filters by tags, or by properties with `expression_type` "SQL92"; `topics` (topic -> expression)
    subscribes to several; `orderly` keeps queues' order.
    """

    @spelled_out(PushSettings)
    def __init__(
        self,
        group: str,
        topic: str | None = None,
        expression: str = "*",
        expression_type: str = TAG,
        *,
        topics: Mapping[str, str] | None = None,
        **settings: Unpack[PushSettings],
    ) -> None:
        subscriptions = wanted_topics(topic, expression, topics)
        if not subscriptions:
            raise UsageError(
                f"the consumer of group {group!r} has no topic",
                hint='give it one: Consumer("group", "topic", namesrv=...)',
            )
        # One message at a time waits for the user's loop; further ones would only run into their consume timeout.
        settings["config"] = replace(settings.get("config") or ConsumerConfig(), batch_size=1, concurrency=1)
        self._push = PushConsumer(group, listener=self._hand_over, **settings)
        for each, filter_expression in subscriptions.items():
            self._push.subscribe(each, filter_expression, expression_type)
        self.group = group
        self._handed: asyncio.Queue[tuple[StoredMessage, Settle] | None] = asyncio.Queue()
        self._unsettled: set[Settle] = set()
        self._current: Settle | None = None
        self._is_closing = False
        self._is_receiving = False

    # life

    async def start(self) -> None:
        """Join the group and begin to fetch."""
        self._push.instance.check_open("Consumer", self.group)
        self._is_closing = False
        self._handed = asyncio.Queue()
        await self._push.start()

    async def stop(self) -> None:
        """Leave the group. The message in your hands is not acknowledged and comes again: it may be one that failed.

        Leaving the `async with` block without an error acknowledges it.
        """
        await self._end(None)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._end(ConsumeResult.SUCCESS)
        else:
            # An exception of the user's block means a retry; a cancellation says nothing about the message.
            await self._end(ConsumeResult.failed(error) if isinstance(error, Exception) else None)

    async def _end(self, last: ConsumeResult | None) -> None:
        self._is_closing = True
        self._settle(last)
        for waiting in list(self._unsettled):
            if not waiting.done():
                waiting.set_result(None)
        try:
            await self._push.stop()
        finally:
            while not self._handed.empty():
                self._handed.get_nowait()
            # A task that waits for a message learns that none comes.
            self._handed.put_nowait(None)

    # messages

    def __aiter__(self) -> AsyncIterator[StoredMessage]:
        return self

    async def __anext__(self) -> StoredMessage:
        """Acknowledge the message before, wait for the next one."""
        message = await self.receive()
        if message is None:
            raise StopAsyncIteration
        return message

    async def receive(self, timeout_ms: float | None = None) -> StoredMessage | None:
        """The next message, None when none came in time or the consumer was stopped; acknowledges the one before."""
        if not self._push.is_running:
            raise NotRunning("Consumer", self.group, is_over=self._push.instance.is_closed)
        if self._is_receiving:
            raise UsageError(
                "another task waits for a message of this consumer already",
                where=f"Consumer of group {self.group!r}",
                hint="read in one task and hand messages on, make a Consumer for each, or use PushConsumer",
            )
        if timeout_ms is not None:
            check_number("timeout_ms", timeout_ms, kind=float)
        self._settle(ConsumeResult.SUCCESS)
        self._is_receiving = True
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                handed = await self._handed.get()
        except TimeoutError:
            return None
        finally:
            self._is_receiving = False
        if handed is None:
            return None
        message, self._current = handed
        return message

    def later(self, *, delay_level: int | None = None, suspend_ms: int | None = None, error: str | None = None) -> None:
        """The message in your hands is not consumed: it comes again (`delay_level` 1..18, -1: to the dead letters).

        `error` says why, as property LAST_ERROR of the message that comes.
        """
        if self._current is None:
            raise UsageError(
                "there is no message in hand",
                where=f"Consumer of group {self.group!r}",
                hint="call later() after receive(), before the next one",
            )
        self._settle(ConsumeResult.later(delay_level=delay_level, suspend_ms=suspend_ms, error=error))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this member reads now."""
        return self._push.assignment

    def _settle(self, result: ConsumeResult | None) -> None:
        current, self._current = self._current, None
        if current is not None and not current.done():
            current.set_result(result)

    @property
    def damaged(self) -> int:
        """Messages that could not be read since the start; each is in the log and, in clustering, a dead letter."""
        return self._push.damaged

    async def _hand_over(self, messages: list[StoredMessage]) -> ConsumeResult:
        settle: Settle = asyncio.get_running_loop().create_future()
        if self._is_closing:
            raise NotConsumed
        self._unsettled.add(settle)
        try:
            self._handed.put_nowait((messages[0], settle))
            result = await settle
        finally:
            self._unsettled.discard(settle)
        if result is None:
            raise NotConsumed
        return result
