"""The requests of one group about popped messages, with the address looked up.

Owns        looking up the master for each request, whether the time of a message is over, one request at a time for
            each message.
Must not know   when to pop, what becomes of a message.

Brokers take an acknowledgement that comes too late, and the message comes again none the less. So a client says so: by
the clock of the broker, whose distance from this one is known since the last pop there.

A message whose time is being changed has no handle until the answer is there: an acknowledgement waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from rocketlake.base.errors import RocketLakeError
from rocketlake.client.calls import pop as calls
from rocketlake.client.calls.answer import is_of_another_master
from rocketlake.client.calls.pop import PopAnswer, handle_of
from rocketlake.client.errors import HandleExpired
from rocketlake.client.instance import ClientInstance
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.pop import PopHandle
from rocketlake.model.subscription import Subscription

__all__ = ["PopAccess"]

T = TypeVar("T")


class PopAccess:
    """Pops and acknowledges for one group."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._ahead: dict[str, float] = {}
        """By broker: how far our monotonic clock is before its own time, ms. Too large by the time of an answer."""
        self._busy: dict[int, asyncio.Future[None]] = {}
        """By identity of the message: the end of the request about it that is under way."""

    async def pop(
        self,
        queue: MessageQueue,
        subscription: Subscription,
        *,
        max_messages: int,
        invisible_ms: int,
        poll_ms: int,
        from_first: bool,
    ) -> PopAnswer:
        """Take messages of a queue. Raises RemoteError, LinkError."""

        async def pop(address: str) -> PopAnswer:
            return await calls.pop(
                self._instance.net,
                address,
                queue,
                group=self._group,
                subscription=subscription,
                max_messages=max_messages,
                invisible_ms=invisible_ms,
                poll_ms=poll_ms,
                from_first=from_first,
            )

        return await self._popped(queue, pop)

    async def _popped(self, queue: MessageQueue, pop: Callable[[str], Awaitable[PopAnswer]]) -> PopAnswer:
        answer = await self._held_at_master(queue, pop)
        if answer.pop_ms:
            self._ahead[queue.broker_name] = self._now_ms() - answer.pop_ms
        return answer

    def _lite_of(self, _message: StoredMessage) -> str | None:
        """The lite topic that the message was popped from."""
        return None

    async def has_message(self, queue: MessageQueue, subscription: Subscription, poll_ms: int) -> bool | None:
        """See calls.pop."""

        async def look(address: str) -> bool | None:
            return await calls.has_message(self._instance.net, address, queue, self._group, subscription, poll_ms)

        return await self._held_at_master(queue, look)

    async def _held_at_master(self, queue: MessageQueue, ask: Callable[[str], Awaitable[T]]) -> T:
        """The outcome of a request that a broker may hold for long, so that its silence says nothing."""
        address = await self._instance.master(queue.broker_name, queue.topic)
        try:
            return await ask(address)
        except RocketLakeError as error:
            if is_of_another_master(error):
                self._instance.masters.doubt(queue.broker_name, queue.topic, address)
            raise

    def is_over(self, message: StoredMessage) -> bool:
        """True if the message comes again, or came already. UsageError if it was not popped."""
        return self._is_over(handle_of(message))

    def _is_over(self, handle: PopHandle) -> bool:
        ahead = self._ahead.get(handle.broker_name)
        return ahead is not None and self._now_ms() - ahead >= handle.pop_ms + handle.invisible_ms

    def _now_ms(self) -> float:
        """A time that no correction of this machine's clock moves."""
        return self._instance.clock.monotonic() * 1000

    async def ack(self, message: StoredMessage) -> None:
        """The message is done with. Raises HandleExpired, RemoteError, LinkError; UsageError if it was not popped."""
        async with self._alone(message):
            handle = self._fresh(message)

            async def ack(address: str) -> None:
                lite = self._lite_of(message)
                await calls.ack(self._instance.net, address, self._group, message.topic, handle, lite=lite)

            await self._instance.at_master(handle.broker_name, message.topic, ack)

    async def ack_all(self, messages: Sequence[StoredMessage]) -> None:
        """The same for messages of one broker, about which no other request is under way; late ones are left out."""
        handles = [(message.topic, handle_of(message)) for message in messages]
        handles = [(topic, handle) for topic, handle in handles if not self._is_over(handle)]
        if not handles:
            return

        async def ack(address: str) -> None:
            await calls.ack_all(self._instance.net, address, self._group, handles)

        await self._instance.at_master(handles[0][1].broker_name, handles[0][0], ack)

    async def change(
        self, message: StoredMessage, invisible_ms: int, *, still: Callable[[], bool] = lambda: True
    ) -> None:
        """The message comes again so long from now on; it gets its new handle. Raises as `ack`.

        `still`: asked when no other request about the message is under way any more; False: leave it.
        """
        async with self._alone(message):
            if not still():
                return
            handle = self._fresh(message)

            async def change(address: str) -> PopHandle:
                return await calls.change_invisible(
                    self._instance.net,
                    address,
                    self._group,
                    message.topic,
                    handle,
                    invisible_ms=invisible_ms,
                    lite=self._lite_of(message),
                )

            handle = await self._instance.at_master(handle.broker_name, message.topic, change)
            message.properties[names.POP_CK] = str(handle)

    async def quiet(self, messages: Sequence[StoredMessage]) -> None:
        """Return when no request about these is under way."""
        for message in messages if self._busy else ():
            while (busy := self._busy.get(id(message))) is not None:
                await asyncio.wait([busy])

    def _fresh(self, message: StoredMessage) -> PopHandle:
        handle = handle_of(message)
        if self._is_over(handle):
            raise HandleExpired(message.topic, message.message_id, handle.invisible_ms)
        return handle

    @asynccontextmanager
    async def _alone(self, message: StoredMessage) -> AsyncIterator[None]:
        await self.quiet([message])
        self._busy[id(message)] = ended = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._busy[id(message)]
            ended.set_result(None)
