"""One queue of a pull consumer: fetched ahead, handed out by poll.

Owns        the position, the fetched messages, starting over after a seek or with another filter.
Must not know   commits, other queues.

Invariant: `position` is the offset of the next message `take` hands out (or would, when it arrives).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.client.calls.answer import PULLED_AFTER_HEARTBEAT, PULLED_SLOWER
from rocketlake.client.calls.pull import PullAnswer, PullStatus
from rocketlake.client.calls.records import DamagedRecord
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.pull_loop import BROKER_FLOW_CONTROL_SECONDS, NOTHING_SEEN, first_unseen, wanted_of
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import Subscription

log = get_logger(__name__)
Keep = Callable[[str, Callable[[], Awaitable[object]]], asyncio.Task[None]]
"""Service.keep of the consumer."""


class Fetch:
    """Fetches one queue ahead of the polls."""

    def __init__(
        self,
        queue: MessageQueue,
        subscription: Subscription,
        position: int,
        *,
        pull: Callable[[MessageQueue, Subscription, int], Awaitable[PullAnswer]],
        by_time: Callable[[MessageQueue, int], Awaitable[int]],
        arrived: Callable[[], None],
        unregistered: Callable[[], None],
        damaged: Callable[[Sequence[DamagedRecord]], None],
        after_break: Callable[[MessageQueue, float], Awaitable[None]],
        config: ConsumerConfig,
        clock: Clock,
        keep: Keep,
    ) -> None:
        self.queue = queue
        self.position = position
        self._subscription = subscription
        self._pull = pull
        self._by_time = by_time
        self._seen_ms = NOTHING_SEEN
        self._arrived = arrived
        self._unregistered = unregistered
        self._damaged = damaged
        self._after_break = after_break
        self._warnings = RareWarnings(log, clock=clock)
        self._config = config
        self._clock = clock
        self._keep = keep
        self._fetched: deque[StoredMessage] = deque()
        self._bytes = 0
        self._next = position
        self._is_ended = False
        self._task = keep(f"fetch {queue}", self._fetch_next)

    def take(self, limit: int) -> list[StoredMessage]:
        """The next messages in order, at most `limit`; moves the position behind them."""
        messages = [self._fetched.popleft() for _ in range(min(limit, len(self._fetched)))]
        self._bytes -= sum([len(message.body) for message in messages])
        self.position = self._fetched[0].queue_offset if self._fetched else self._next
        return messages

    def seek(self, offset: int) -> None:
        """Forget what was fetched and go on at `offset`; nothing happens after `stop`."""
        if self._is_ended:
            return
        self._task.cancel()
        self._fetched.clear()
        self._bytes = 0
        self.position = self._next = offset
        self._task = self._keep(f"fetch {self.queue}", self._fetch_next)

    def follow(self, subscription: Subscription) -> None:
        """Filter by this subscription from the position on; messages fetched ahead with another filter are dropped."""
        old, self._subscription = self._subscription, subscription
        if (old.expression, old.expression_type) != (subscription.expression, subscription.expression_type):
            self.seek(self.position)

    async def stop(self) -> None:
        """Fetch no more."""
        self._is_ended = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _fetch_next(self) -> None:
        pause = self._pause_ms()
        if pause:
            await self._clock.sleep(pause / 1000)
            return
        try:
            answer = await self._pull(self.queue, self._subscription, self._next)
            await self._take_in(answer)
        except RocketLakeError as error:
            seconds = self._after_error(error)
            if isinstance(error, LinkError):
                await self._after_break(self.queue, seconds)
            else:
                await self._clock.sleep(seconds)

    def _pause_ms(self) -> int:
        config = self._config
        full = len(self._fetched) >= config.queue_messages_max or self._bytes >= config.queue_bytes_max
        return config.flow_control_pause_ms if full else config.pull_interval_ms

    def _after_error(self, error: RocketLakeError) -> float:
        if isinstance(error, RemoteError):
            if error.code in PULLED_SLOWER:
                return BROKER_FLOW_CONTROL_SECONDS
            if error.code in PULLED_AFTER_HEARTBEAT:
                self._unregistered()
        self._warnings.warn("failed", "pull of %s failed: %s", self.queue, error)
        return self._config.error_pause_ms / 1000

    async def _take_in(self, answer: PullAnswer) -> None:
        offset = answer.next_offset
        if answer.status is PullStatus.OFFSET_ILLEGAL:
            if self._next > answer.max_offset:
                offset = await first_unseen(self._by_time, self.queue, self._seen_ms, answer)
            log.warning("offset %d of %s is illegal, going on at %d", self._next, self.queue, offset)
            if answer.min_offset <= self._next <= answer.max_offset:
                # An operator reset the group: messages fetched before that are not wanted and must not be committed.
                self._fetched.clear()
                self._bytes = 0
        if answer.damaged:
            self._damaged(answer.damaged)
        if answer.messages:
            self._seen_ms = answer.messages[-1].store_ms
        self._next = offset
        wanted = wanted_of(answer.messages, self._subscription)
        self._fetched += wanted
        self._bytes += sum([len(message.body) for message in wanted])
        if not self._fetched:
            self.position = self._next
        if wanted:
            self._arrived()
