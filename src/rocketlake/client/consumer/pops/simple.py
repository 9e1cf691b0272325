"""The simple consumer: you receive messages for a while, and acknowledge each one by itself.

Owns        the topics and filters of such a consumer, how it waits for messages of several places.
Must not know   how requests look (calls/pop.py), the life of the consumer and of a receive (receiving.py).

Where there is one place only, that holds the request until a message comes. Where there are several, nothing is taken
by a request that waits: each is asked to say when it has something (NOTIFICATION), and the first that does is asked for
it. So no message waits in a request that nobody reads. Questions that are not answered yet are kept for the next
receive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Unpack

from rocketlake.base.errors import LinkError, RemoteError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.client.calls.pop import PopAnswer
from rocketlake.client.config import FirstOffset
from rocketlake.client.consumer.filters import subscription_of, wanted_topics
from rocketlake.client.consumer.group_consumer import MemberSettings, spelled_out, with_defaults
from rocketlake.client.consumer.pops.access import PopAccess
from rocketlake.client.consumer.pops.receiving import PAUSE_SECONDS, Place, ReceivingConsumer
from rocketlake.model import names
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import TAG

__all__ = ["SimpleConsumer"]

log = get_logger(__name__)


class SimpleConsumer(ReceivingConsumer[PopAccess]):
    """`await receive()`, do the work, `await ack(message)`. What is not acknowledged in time comes again.

    `expression` filters by tags, or by properties with `expression_type` "SQL92"; `topics` (topic -> expression)
    subscribes to several. A member that hangs blocks no queue, and a group may have more members than queues.
    """

    @spelled_out(MemberSettings)
    def __init__(
        self,
        group: str,
        topic: str | None = None,
        expression: str = "*",
        expression_type: str = TAG,
        *,
        topics: Mapping[str, str] | None = None,
        **settings: Unpack[MemberSettings],
    ) -> None:
        super().__init__("simple consumer", group, with_defaults(settings), PopAccess)
        if self.from_where is FirstOffset.TIMESTAMP:
            raise UsageError(
                "a group that pops cannot start at a time",
                where=f"SimpleConsumer of group {group!r}",
                hint='use from_where="first" or "last", or reset its offsets: `rocketlake group reset`',
            )
        self._notices: dict[MessageQueue, asyncio.Task[None]] = {}
        """Questions to brokers that are not answered yet."""
        self._news: asyncio.Future[None] | None = None
        """Done when one of them is answered."""
        for each, filter_expression in wanted_topics(topic, expression, topics).items():
            self.subscribe(each, filter_expression, expression_type)

    def subscribe(self, topic: str, expression: str = "*", expression_type: str = TAG) -> None:
        """Receive from a topic, too; may be called while running."""
        names.check_topic(topic)
        self._subscriptions[topic] = subscription_of(topic, expression, expression_type, self.instance.new_version())
        self.instance.heartbeat_soon()

    def unsubscribe(self, topic: str) -> None:
        """Receive no longer from a topic."""
        self._subscriptions.pop(topic, None)
        self.instance.heartbeat_soon()

    async def _pop(self, place: Place, max_messages: int, invisible_ms: int, poll_ms: int) -> PopAnswer:
        return await self._pops.pop(
            place.queue,
            place.subscription,
            max_messages=max_messages,
            invisible_ms=invisible_ms,
            poll_ms=poll_ms,
            from_first=self.from_where is FirstOffset.FIRST,
        )

    def _poll_ms(self, places: Sequence[Place], left_ms: int) -> int:
        return left_ms if len(places) == 1 else 0

    async def _idle(self, places: Sequence[Place], seconds: float) -> None:
        """Wait until a place may have something, or the time is up."""
        if len(places) == 1:
            return
        for place in places:
            if place.queue not in self._notices:
                self._notices[place.queue] = self.spawn(f"notice {place.queue}", self._notice(place))
        if self._news is None or self._news.done():
            self._news = asyncio.get_running_loop().create_future()
        await self._clock.wait(self._news, seconds)

    async def _notice(self, place: Place) -> None:
        try:
            if await self._pops.has_message(place.queue, place.subscription, self.config.hold_ms) is None:
                await self._clock.sleep(PAUSE_SECONDS)
        except (RemoteError, LinkError) as error:
            log.info("group %s does not hear of messages in %s: %s", self.group, place.queue, error)
            await self._clock.sleep(self.config.error_pause_ms / 1000)
        finally:
            del self._notices[place.queue]
            if self._news is not None and not self._news.done():
                self._news.set_result(None)
