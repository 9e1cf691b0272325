"""Queues, bounds, times and pulls of a topic, beside all consumer groups.

Owns        the requests of a replay, repeated when a link breaks.
Must not know   the plan of a replay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from rocketlake.base.errors import LinkError
from rocketlake.client.wire import ClientInstance, NoRoute, PullAnswer, offset_calls, pull
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import REPLAY_GROUP
from rocketlake.model.subscription import Subscription

__all__ = ["ClusterReader"]

T = TypeVar("T")
_PULL_MESSAGES = 256
_PULL_BYTES = 2 << 20
_TRIES = 10
_PAUSE_SECONDS = 0.5


class ClusterReader:
    """Reads over a started client."""

    def __init__(self, client: ClientInstance) -> None:
        self._client = client

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Readable queues, sorted. NoRoute if no name server knows the topic."""
        if not await self._client.refresh_route(topic):
            raise NoRoute(topic, self._client.name_servers.addresses, purpose="read")
        return sorted(self._client.routes.to_read(topic) or ())

    async def queues_to_send(self, topic: str) -> list[MessageQueue]:
        """Queues that take messages, sorted. NoRoute if there is none."""
        if not await self._client.refresh_route(topic) or not (queues := self._client.routes.to_publish(topic)):
            raise NoRoute(topic, self._client.name_servers.addresses, purpose="send")
        return sorted(queues)

    async def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """First and next offset."""
        low = await self._ask(queue, lambda address: offset_calls.min_offset(self._client.net, address, queue))
        return max(0, low), await self._ask(
            queue, lambda address: offset_calls.max_offset(self._client.net, address, queue)
        )

    async def near(self, queue: MessageQueue, time_ms: int) -> int:
        """An offset whose message was stored about that time; brokers differ by one."""
        return await self._ask(
            queue, lambda address: offset_calls.offset_by_time(self._client.net, address, queue, time_ms)
        )

    async def pull(self, queue: MessageQueue, offset: int, subscription: Subscription) -> PullAnswer:
        """Messages from here on, around damaged ones; never waits for new ones."""
        return await self._ask(
            queue,
            lambda address: pull(
                self._client.net, address, queue, group=REPLAY_GROUP, offset=offset, subscription=subscription,
                max_messages=_PULL_MESSAGES, max_bytes=_PULL_BYTES, lite=True, around_damage=True,
            ),
        )  # fmt: skip

    async def _ask(self, queue: MessageQueue, ask: Callable[[str], Awaitable[T]]) -> T:
        for tries in range(_TRIES):
            try:
                return await ask(await self._client.master(queue.broker_name, queue.topic))
            except LinkError:
                if tries == _TRIES - 1:
                    raise
                await self._client.clock.sleep(_PAUSE_SECONDS)
                await self._client.refresh_route(queue.topic)
        raise AssertionError("unreachable: the loop returns or raises")
