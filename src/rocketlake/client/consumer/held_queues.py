"""The queues that a push consumer holds: begin with one, leave one, start one again at another offset.

Owns        the table queue -> (messages in hand, pull task), and the order of steps when a queue comes or goes.
Must not know   how queues are shared (rebalance.py), how listeners run.

Invariant: a queue in the table has exactly one pull task. Leaving: stop pulling, let an ordered listener end, save the
offset, give the lock up; only then may another member find the queue free. The lock is renewed for as long as the
listener runs; when the consumer stops meanwhile, the lock expires at the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.client.calls.pull import PullAnswer
from rocketlake.client.calls.records import DamagedRecord
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.first_offset import StartPolicy
from rocketlake.client.consumer.offset_store import OffsetStore
from rocketlake.client.consumer.process_queue import ProcessQueue
from rocketlake.client.consumer.pull_loop import PullLoop, PullPlan
from rocketlake.client.consumer.puller import Puller
from rocketlake.client.consumer.queue_access import QueueAccess
from rocketlake.client.instance import ClientInstance
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import Subscription

log = get_logger(__name__)
LISTENER_END_SECONDS = 0.5
LISTENER_END_STEP_SECONDS = 0.01
LISTENER_LONG_SECONDS = 30.0
OTHERS_FIRST_SECONDS = 3.0


class Runner(Protocol):
    """Takes pulled messages (concurrent.py, ordered.py)."""

    def submit(self, held: ProcessQueue, messages: Sequence[StoredMessage]) -> None:
        """These messages were added to `held`."""


class HeldQueues:
    """QueueOwner of a push consumer; `locks` is given for ordered consumption in clustering."""

    def __init__(
        self,
        instance: ClientInstance,
        offsets: OffsetStore,
        start_policy: StartPolicy,
        runner: Runner,
        puller: Puller,
        *,
        group: str,
        config: ConsumerConfig,
        locks: QueueAccess | None,
        is_locked: Callable[[ProcessQueue], bool] | None,
        listener_runs: Callable[[MessageQueue], bool],
        damaged: Callable[[DamagedRecord], Awaitable[bool]],
        pulled: Callable[[str, float, int], None],
        subscription: Callable[[str], Subscription | None],
        commits: bool,
        is_suspended: Callable[[], bool],
        spawn: Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._clock = instance.clock
        self._masters = instance.masters
        self._offsets = offsets
        self._start_policy = start_policy
        self._config = config
        self._locks = locks
        self._listener_runs = listener_runs
        self._spawn = spawn
        self._table: dict[MessageQueue, ProcessQueue] = {}
        self._pulls: dict[MessageQueue, asyncio.Task[None]] = {}
        self._queue_limits: dict[str, int] = {}

        async def pull(held: ProcessQueue, subscription: Subscription, offset: int, commit: int) -> PullAnswer:
            return await puller.pull(held.queue, subscription, offset, commit=commit)

        self._plan = PullPlan(
            config=config,
            clock=self._clock,
            offsets=offsets,
            subscription=subscription,
            pull=pull,
            submit=runner.submit,
            pulled=pulled,
            restart=self.restart,
            by_time=start_policy.by_time,
            unregistered=instance.heartbeat_soon,
            after_break=instance.after_break,
            is_paused=is_suspended,
            is_locked=is_locked,
            damaged=damaged,
            commits=commits,
            group=group,
            warnings=RareWarnings(log, interval_seconds=30.0, clock=self._clock),
            queue_limit=lambda topic: self._queue_limits.get(topic, config.queue_messages_max),
        )

    def all(self) -> Collection[ProcessQueue]:
        """The messages in hand, per queue."""
        return self._table.values()

    # QueueOwner

    def queues(self) -> Collection[MessageQueue]:
        """The queues held."""
        return list(self._table)

    def stale_queues(self) -> Collection[MessageQueue]:
        """Queues not pulled for `idle_pull_max_ms`, and given-up queues whose listener had still to end."""
        oldest = self._clock.monotonic() - self._config.idle_pull_max_ms / 1000
        return [queue for queue, held in self._table.items() if held.dropped or held.last_pull < oldest]

    async def take(self, queue: MessageQueue) -> bool:
        """Lock the queue (ordered), find its first offset, begin to pull; false without a lock or offset now."""
        if self._locks is not None and self._masters.has_just_moved(queue.broker_name, OTHERS_FIRST_SECONDS):
            return False  # the new master knows no locks: the member that has the queue must be the first to ask
        if self._locks is not None and queue not in await self._locks.lock([queue]):
            log.info("%s is still locked by another member", queue)
            return False
        self._offsets.forget(queue)
        try:
            first = await self._start_policy.first_offset(self._offsets, queue)
        except RocketLakeError as error:
            log.warning("the first offset of %s is not known, next try in the next round: %s", queue, error)
            return False
        # The offset is saved from now on: a group that starts at the end must not lose messages sent before its first
        # commit.
        self._offsets.update(queue, first, increase_only=False)
        self._begin(ProcessQueue(queue, self._clock.monotonic()), first, locked=self._locks is not None)
        return True

    def _begin(self, held: ProcessQueue, first: int, *, locked: bool) -> None:
        held.locked, held.last_lock = locked, self._clock.monotonic()
        self._table[held.queue] = held
        task = self._spawn(f"pull {held.queue}", PullLoop(self._plan, held, first).run())
        self._pulls[held.queue] = task

    async def leave(self, queue: MessageQueue) -> bool:
        """Give a queue up; false while its ordered listener still runs."""
        held = self._table[queue]
        held.dropped = True
        await self._end_pull(queue)
        if self._locks is not None and not await self._listener_ended(held):
            return False
        await self._offsets.persist([queue])
        self._offsets.forget(queue)
        del self._table[queue]
        if self._locks is not None:
            held.locked = False
            await self._locks.unlock([queue])
        held.clear()
        return True

    async def _listener_ended(self, held: ProcessQueue) -> bool:
        until = self._clock.monotonic() + LISTENER_END_SECONDS
        while (runs := self._listener_runs(held.queue)) and self._clock.monotonic() < until:
            await self._clock.sleep(LISTENER_END_STEP_SECONDS)
        if runs and self._clock.monotonic() - held.last_pull > LISTENER_LONG_SECONDS:
            self._plan.warnings.warn(
                f"keeps {held.queue}",
                "ordered queue %s is to go to another member of group %s, which waits until the listener returns here;"
                " if it never does, restart this process",
                held.queue, self._plan.group,
            )  # fmt: skip
        return not runs

    def assigned(self, topic: str, own: Collection[MessageQueue]) -> None:
        """Share the topic's limit among its queues."""
        log.info(
            "queues of topic %s are now %s", topic, ", ".join(f"{q.broker_name}/{q.queue_id}" for q in sorted(own))
        )
        limit = self._config.topic_messages_max
        if limit > 0 and own:
            self._queue_limits[topic] = max(1, limit // len(own))

    # also used by the consumer

    async def restart(self, held: ProcessQueue, offset: int) -> None:
        """Go on at another offset: messages in hand and the answer of a running listener no longer count."""
        if held.dropped or self._table.get(held.queue) is not held:
            return
        held.dropped = True
        held.clear()
        self._offsets.update(held.queue, offset, increase_only=False)
        fresh = ProcessQueue(held.queue, self._clock.monotonic())
        old_task = self._pulls.pop(held.queue)
        self._begin(fresh, offset, locked=held.locked)
        fresh.last_lock = held.last_lock
        if old_task is not asyncio.current_task():
            old_task.cancel()
        await self._offsets.persist([held.queue])

    async def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move the held queues of a topic to these offsets."""
        for queue, offset in offsets.items():
            held = self._table.get(queue)
            if held is not None and queue.topic == topic:
                await self.restart(held, offset)

    async def stop_pulling(self) -> None:
        """End all pull tasks; messages in hand stay."""
        for queue in list(self._pulls):
            await self._end_pull(queue)

    async def leave_all(self) -> None:
        """At stop: save all offsets in one go, give all locks up."""
        queues = list(self._table)
        for held in self._table.values():
            held.dropped = True
        await self._offsets.persist(queues)
        if self._locks is not None:
            kept = [queue for queue in queues if self._listener_runs(queue)]
            if kept:
                log.warning("the listener still runs on %s; other members get these when their locks expire", kept)
            await self._locks.unlock([queue for queue in queues if queue not in kept])
        self._table.clear()

    async def _end_pull(self, queue: MessageQueue) -> None:
        task = self._pulls.pop(queue, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
