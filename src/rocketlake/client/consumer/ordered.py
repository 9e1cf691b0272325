"""Runs listeners in order: one listener call per queue at a time, and only while the broker's queue lock is ours.

Owns        taking messages in order, suspending a queue after a failure, the client's view of its queue locks.
Must not know   how messages are pulled, how members share queues.

A new master knows no locks. The queues of its broker wait until it has granted theirs anew, which is asked for at once.

Rule: a failed batch is put back and comes again after `suspend_ms`, so nothing overtakes it. A message that failed
`reconsume_max` times, or that its listener gives up (`delay_level` -1), goes to %RETRY%group, from where the broker
moves it to the dead letters. Locks are renewed every 20 s, trusted for 30 s, and dropped by the broker after 60 s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import Service
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.listener import ConsumeResult, ListenerCall
from rocketlake.client.consumer.offset_store import OffsetStore
from rocketlake.client.consumer.process_queue import ProcessQueue
from rocketlake.client.consumer.running import Queues, consume, is_safe
from rocketlake.client.hooks import Hooks
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue

log = get_logger(__name__)
LockQueues = Callable[[Collection[MessageQueue]], Awaitable[set[MessageQueue]]]
Resend = Callable[[StoredMessage, int], Awaitable[bool]]
"""(message, retry limit) -> True when a copy is safe at a broker."""
SUSPEND_MS_RANGE = (10, 30_000)
LOCK_RETRY_SECONDS = 0.1
REPEATS_TO_SHOW = 3
REPEATS_TO_TELL = 16
TURN_RETRY_SECONDS = 0.05
LOCK_REFUSED_SECONDS = 3.0
LOCK_ANEW_SECONDS = 0.2
LOCK_ANEW_TIMES = 50


class OrderedRunner:
    """Feeds each queue's messages to the listener one batch after the other."""

    def __init__(
        self,
        call: ListenerCall,
        *,
        group: str,
        config: ConsumerConfig,
        offsets: OffsetStore,
        resend: Resend | None,
        lock: LockQueues | None,
        hooks: Hooks,
        clock: Clock,
    ) -> None:
        self._call = call
        self._group = group
        self._config = config
        self._offsets = offsets
        self._resend = resend
        self._lock = lock
        self._hooks = hooks
        self._clock = clock
        self._ready: asyncio.Queue[ProcessQueue | None] = asyncio.Queue()
        self._running: set[MessageQueue] = set()
        """The queues whose messages the listener has. After an offset reset these may be messages pulled before it."""
        self._standing: dict[MessageQueue, str] = {}
        """The message at which a queue stands still, in words."""
        self._warnings = RareWarnings(log, interval_seconds=60.0, clock=clock)
        self._is_stopping = False

    def start(self, service: Service, queues: Queues) -> list[asyncio.Task[None]]:
        """Start the workers in the service; the tasks returned end by themselves after `stop`."""
        self._spawn = spawn = service.spawn
        self._queues = queues
        if self._lock is not None:
            interval = self._config.lock_interval_ms / 1000
            service.every("queue locks", interval, partial(self._renew_locks, self._lock, queues))
        return [spawn(f"ordered listener {number}", self._work()) for number in range(self._config.concurrency)]

    def stop(self) -> None:
        """Begin no further listener call."""
        self._is_stopping = True
        for _ in range(self._config.concurrency):
            self._ready.put_nowait(None)

    def submit(self, held: ProcessQueue, messages: Sequence[StoredMessage]) -> None:
        """Messages were added to `held`: make sure that a worker takes the queue."""
        if not held.is_busy:
            held.is_busy = True
            self._ready.put_nowait(held)

    def is_locked(self, held: ProcessQueue) -> bool:
        """True when messages of this queue may be consumed now."""
        if self._lock is None:
            return True
        return held.locked and self._clock.monotonic() - held.last_lock < self._config.lock_valid_ms / 1000

    def standing(self) -> str:
        """The queues that stand still, and why, in words; "" if none does."""
        held = {each.queue for each in self._queues() if not each.dropped}
        return "; ".join(text for queue, text in sorted(self._standing.items()) if queue in held)

    def master_moved(self, broker_name: str) -> None:
        """Another broker is the master of this name: trust no lock that the old one granted."""
        if self._lock is not None and not self._is_stopping:
            for held in self._queues():
                held.locked = held.locked and held.queue.broker_name != broker_name
            self._spawn("locks of a new master", self._lock_anew(self._lock, broker_name))

    async def _lock_anew(self, lock: LockQueues, broker_name: str) -> None:
        for _ in range(LOCK_ANEW_TIMES):
            lost = [held for held in self._queues() if held.queue.broker_name == broker_name and not held.locked]
            locked = await lock([held.queue for held in lost]) if lost else set()
            for held in lost:
                if held.queue in locked:
                    held.locked, held.last_lock = True, self._clock.monotonic()
            if len(locked) == len(lost):
                return
            await self._clock.sleep(LOCK_ANEW_SECONDS)

    def listener_runs(self, queue: MessageQueue) -> bool:
        """True while the listener has messages of this queue: no other member may get the queue's lock then."""
        return queue in self._running

    async def _work(self) -> None:
        while True:
            held = await self._ready.get()
            if held is None or self._is_stopping:
                return
            if held.queue in self._running:
                self._spawn("ordered turn", self._again(held, TURN_RETRY_SECONDS))
                continue
            self._running.add(held.queue)
            try:
                pause = await self._run(held)
            except Exception:
                log.exception("ordered queue %s of group %s is tried again", held.queue, self._group)
                held.put_back_all()
                pause = LOCK_REFUSED_SECONDS
            finally:
                self._running.remove(held.queue)
            if pause is not None and not held.dropped:
                self._spawn("ordered pause", self._again(held, pause))

    async def _again(self, held: ProcessQueue, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._ready.put_nowait(held)

    async def _run(self, held: ProcessQueue) -> float | None:
        """Consume until the queue is empty or must pause; returns the pause in seconds, None when idle."""
        begun = self._clock.monotonic()
        while not held.dropped and not self._is_stopping:
            if not self.is_locked(held):
                return await self._lock_again(held)
            if self._clock.monotonic() - begun > self._config.continuous_ms / 1000:
                return 0.01
            batch = held.take(self._config.batch_size)
            if not batch:
                held.is_busy = False
                return None
            pause = await self._consume(held, batch)
            if pause is not None:
                return pause
        return None

    async def _lock_again(self, held: ProcessQueue) -> float:
        if self._lock is not None and held.queue in await self._lock([held.queue]):
            held.locked, held.last_lock = True, self._clock.monotonic()
            return LOCK_RETRY_SECONDS
        return LOCK_REFUSED_SECONDS

    async def _consume(self, held: ProcessQueue, batch: list[StoredMessage]) -> float | None:
        held.start(batch, self._clock.monotonic())
        given_up = held.given_up
        left = [message for message in batch if message.queue_offset not in given_up] if given_up else batch
        if left:
            answer = await consume(self._call, self._group, held.queue, left, self._hooks, self._clock)
            if answer is None:
                held.put_back(batch)
                return self._config.suspend_ms / 1000
            if answer.count_done(len(left)) < len(left) and await self._must_wait(held, left, answer):
                held.put_back(batch)
                return self._suspend_seconds(answer)
        offset = held.commit()
        self._standing.pop(held.queue, None)
        # Even when the queue is on its way to another member: this member sets the offset until it gives the lock up.
        if offset >= 0 and (self._lock is None or held.locked):
            self._offsets.update(held.queue, offset, increase_only=False)
        return None

    async def _must_wait(self, held: ProcessQueue, batch: Sequence[StoredMessage], answer: ConsumeResult) -> bool:
        """Count the failure; false when every message reached its limit and was given up."""
        held.restore(batch, answer.error)
        limit = 0 if (answer.delay_level or 0) < 0 else self._config.reconsume_limit(orderly=True)
        waits = False
        for message in batch:
            give_up = self._resend if message.reconsume_times >= limit else None
            if give_up is None or not await is_safe(give_up(message, limit), message):
                message.reconsume_times += 1
                waits = True
            else:
                held.given_up.add(message.queue_offset)
        times = max(message.reconsume_times for message in batch)
        queue = held.queue
        if waits and times >= REPEATS_TO_SHOW:
            why = f": {answer.error}" if answer.error else ""
            self._standing[queue] = f"{queue} at offset {batch[0].queue_offset}, failed {times} times{why}"
        if waits and times >= REPEATS_TO_TELL:
            self._warnings.warn(
                str(queue),
                "ordered queue %s of group %s stands still: the message at offset %d failed %d times and comes again"
                " before all others; ConsumerConfig.reconsume_max ends that",
                queue, self._group, batch[0].queue_offset, times,
            )  # fmt: skip
        return waits

    def _suspend_seconds(self, answer: ConsumeResult) -> float:
        low, high = SUSPEND_MS_RANGE
        wanted = self._config.suspend_ms if answer.suspend_ms is None else answer.suspend_ms
        return min(max(wanted, low), high) / 1000

    async def _renew_locks(self, lock: LockQueues, queues: Queues) -> None:
        table = {held.queue: held for held in queues() if not held.dropped or self.listener_runs(held.queue)}
        locked = await lock(table.keys()) if table else set()
        for queue, held in table.items():
            held.locked = queue in locked
            if held.locked:
                held.last_lock = self._clock.monotonic()
            else:
                log.warning("the lock of %s was lost; its messages wait until it is ours again", queue)
