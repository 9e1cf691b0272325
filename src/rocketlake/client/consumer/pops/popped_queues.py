"""The queues that a push consumer pops: begin with one, leave one, pop again and again.

Owns        the table of these queues, one task that pops each, what follows an answer and a failure.
Must not know   how queues are shared (rebalance.py), how listeners run (runner.py).

A queue is mostly ANY_QUEUE of a broker. It belongs to no member, so what was popped is worked on though the queue is
left. Leaving waits for the pop that is under way: a member that pulls the queue from then on would get its messages a
second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.client.calls.answer import PULLED_AFTER_HEARTBEAT, PULLED_SLOWER
from rocketlake.client.calls.pop import PopAnswer
from rocketlake.client.config import ConsumerConfig, FirstOffset
from rocketlake.client.consumer.damage import Damage
from rocketlake.client.consumer.pops.access import PopAccess
from rocketlake.client.consumer.pops.acks import Acks
from rocketlake.client.consumer.pull_loop import (
    BROKER_FLOW_CONTROL_SECONDS,
    NOT_READY_SECONDS,
    pause_behind,
    wanted_of,
)
from rocketlake.client.instance import ClientInstance
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import Subscription

__all__ = ["PoppedQueue", "PoppedQueues"]

log = get_logger(__name__)
_LEAVE_SECONDS = 0.2
_FULL_SECONDS = 1.0


class PoppedQueue:
    """A queue that is popped."""

    __slots__ = ("count", "dropped", "queue")

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.count = 0
        """Messages in hand: popped, and not done with."""
        self.dropped = False
        """No further pop."""


class PoppedQueues:
    """QueueOwner of the queues that are popped."""

    def __init__(
        self,
        instance: ClientInstance,
        pops: PopAccess,
        acks: Acks,
        *,
        group: str,
        config: ConsumerConfig,
        from_where: FirstOffset,
        subscription: Callable[[str], Subscription | None],
        damage: Damage,
        is_suspended: Callable[[], bool],
        submit: Callable[[PoppedQueue, Sequence[StoredMessage]], None],
        pulled: Callable[[str, float, int], None],
        spawn: Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._instance = instance
        self._clock = instance.clock
        self._pops = pops
        self._acks = acks
        self._group = group
        self._config = config
        self._from_first = from_where is FirstOffset.FIRST
        self._subscription = subscription
        self._damage = damage
        self._is_suspended = is_suspended
        self._submit = submit
        self._pulled = pulled
        self._spawn = spawn
        self._table: dict[MessageQueue, tuple[PoppedQueue, asyncio.Task[None]]] = {}
        self._warnings = RareWarnings(log, interval_seconds=30.0, clock=self._clock)

    # QueueOwner

    def queues(self) -> Collection[MessageQueue]:
        """The queues that are popped."""
        return list(self._table)

    def stale_queues(self) -> Collection[MessageQueue]:
        """Queues whose last pop is waited for."""
        return [queue for queue, (popped, _) in self._table.items() if popped.dropped]

    async def take(self, queue: MessageQueue) -> bool:
        """Begin to pop."""
        popped = PoppedQueue(queue)
        self._table[queue] = popped, self._spawn(f"pop {queue}", self._pop_on(popped))
        return True

    async def leave(self, queue: MessageQueue) -> bool:
        """Pop no longer; False while a pop is under way."""
        popped, task = self._table[queue]
        popped.dropped = True
        if not await self._clock.wait(task, _LEAVE_SECONDS):
            return False
        del self._table[queue]
        return True

    def assigned(self, topic: str, own: Collection[MessageQueue]) -> None:
        """Tell it."""
        log.info("group %s pops topic %s at %s", self._group, topic, ", ".join(map(str, sorted(own))) or "no broker")

    # also used by the consumer

    async def stop_popping(self) -> None:
        """End all pops; messages in hand stay. What a broker hands out meanwhile comes again."""
        tasks = [task for _, task in self._table.values()]
        self._table.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # pops

    async def _pop_on(self, popped: PoppedQueue) -> None:
        while not popped.dropped:
            subscription = self._subscription(popped.queue.topic)
            if self._is_suspended() or subscription is None:
                await self._clock.sleep(NOT_READY_SECONDS)
            elif popped.count > self._config.pop_queue_messages_max:
                await self._clock.sleep(self._config.flow_control_pause_ms / 1000)
            else:
                pause = await pause_behind(self._pop(popped, subscription), popped.queue, self._config, self._warnings)
                if pause and not popped.dropped:
                    await self._clock.sleep(pause)

    async def _pop(self, popped: PoppedQueue, subscription: Subscription) -> float:
        """One pop; returns the pause behind it in seconds."""
        begun = self._clock.monotonic()
        try:
            answer = await self._pops.pop(
                popped.queue,
                subscription,
                max_messages=self._config.pop_batch_size,
                invisible_ms=self._config.pop_invisible_ms,
                poll_ms=self._config.hold_ms,
                from_first=self._from_first,
            )
        except RemoteError as error:
            if error.code in PULLED_SLOWER:
                return BROKER_FLOW_CONTROL_SECONDS
            if error.code in PULLED_AFTER_HEARTBEAT:
                self._instance.heartbeat_soon()
            self._warnings.warn("refused", "a pop of %s was refused: %s", popped.queue, error)
        except RocketLakeError as error:
            self._warnings.warn("failed", "a pop of %s failed: %s", popped.queue, error)
            if isinstance(error, LinkError):
                await self._instance.after_break(popped.queue, self._config.error_pause_ms / 1000)
                return 0.0
        else:
            self._pulled(popped.queue.topic, self._clock.monotonic() - begun, len(answer.messages))
            await self._take(popped, answer, subscription)
            return _FULL_SECONDS if answer.is_full else 0.0
        return self._config.error_pause_ms / 1000

    async def _take(self, popped: PoppedQueue, answer: PopAnswer, subscription: Subscription) -> None:
        wanted = wanted_of(answer.messages, subscription)
        if len(wanted) < len(answer.messages):  # another tag has the same code
            self._acks.add([message for message in answer.messages if message.tags not in subscription.tags])
        for record in answer.damaged:
            # One whose lengths are broken has no handle: it comes again, and is told again.
            if await self._damage.settle(record) and record.message is not None:
                self._acks.add([record.message])
        if wanted:
            popped.count += len(wanted)
            self._submit(popped, wanted)
