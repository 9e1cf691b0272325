"""Runs listeners side by side: many messages at once, each queue committed up to its lowest unfinished message.

Owns        the workers, the steps after a listener has returned, raised or run too long.
Must not know   how messages are pulled, how members share queues.

Rule: a failed message is sent back to its broker and then counts as finished here; if that fails too it stays in hand
and comes again after `local_retry_ms`. Broadcasting has no retry: a failed message is logged and dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.listener import ConsumeResult, ListenerCall
from rocketlake.client.consumer.offset_store import OffsetStore
from rocketlake.client.consumer.process_queue import ProcessQueue
from rocketlake.client.consumer.running import Queues, consume, is_safe
from rocketlake.client.hooks import Hooks
from rocketlake.model.message import StoredMessage

log = get_logger(__name__)
SendBackCall = Callable[[StoredMessage, int], Awaitable[bool]]
"""(message, delay level) -> True when the message is safe at a broker again."""
Job = Callable[[], Awaitable[None]]
EXPIRED_AT_ONCE = 16
EXPIRED_DELAY_LEVEL = 3


class ConcurrentRunner:
    """Feeds pulled messages to `config.concurrency` listeners at once."""

    def __init__(
        self,
        call: ListenerCall,
        *,
        group: str,
        config: ConsumerConfig,
        offsets: OffsetStore,
        send_back: SendBackCall | None,
        hooks: Hooks,
        clock: Clock,
    ) -> None:
        self._call = call
        self._group = group
        self._config = config
        self._offsets = offsets
        self._send_back = send_back
        self._hooks = hooks
        self._clock = clock
        self._waiting: deque[tuple[ProcessQueue, list[StoredMessage]] | Job] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        """Idle workers. Not an asyncio.Queue: for a short listener that would double the cost of a call."""
        self._is_stopping = False

    def start(self, service: Service, queues: Queues) -> list[asyncio.Task[None]]:
        """Start the workers in the service; the tasks returned end by themselves after `stop`."""
        self._spawn = spawn = service.spawn
        if self._send_back is not None:
            timeout = self._config.consume_timeout_ms / 1000
            service.every("consume timeout", timeout, partial(self._send_expired_back, self._send_back, queues))
        return [spawn(f"listener {number}", self._work()) for number in range(self._config.concurrency)]

    def stop(self) -> None:
        """Begin no further listener call; idle workers end now, busy ones after their call."""
        self._is_stopping = True
        self._waiting.clear()
        self._wake(len(self._idle))

    def submit(self, held: ProcessQueue, messages: Sequence[StoredMessage]) -> None:
        """Hand pulled messages over, in pieces of `batch_size`."""
        size = self._config.batch_size
        pieces = [(held, list(messages[start : start + size])) for start in range(0, len(messages), size)]
        self._waiting.extend(pieces)
        self._wake(len(pieces))

    def submit_job(self, job: Job) -> None:
        """Have a worker run this: the listener call of messages that do not belong to a queue."""
        self._waiting.append(job)
        self._wake(1)

    def _wake(self, count: int) -> None:
        while count and self._idle:
            worker = self._idle.popleft()
            if not worker.done():
                worker.set_result(None)
                count -= 1

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        waiting = self._waiting
        while not self._is_stopping:
            if not waiting:
                idle = loop.create_future()
                self._idle.append(idle)
                await idle
                continue
            work = waiting.popleft()
            if not isinstance(work, tuple):
                await work()
                continue
            held, batch = work
            if held.dropped:
                continue
            held.start(batch, self._clock.monotonic())
            answer = await consume(self._call, self._group, held.queue, batch, self._hooks, self._clock)
            if answer is None or held.dropped:
                # The listener did not look at the messages, or another member owns the queue now and gets them again.
                continue
            if answer.count_done(len(batch)) == len(batch):
                self._finish(held, batch)
            else:
                await self._settle(held, batch, answer)

    async def _settle(self, held: ProcessQueue, batch: list[StoredMessage], answer: ConsumeResult) -> None:
        """The listener did not finish the batch: its rest comes again, from its broker or from here."""
        done = answer.count_done(len(batch))
        unsettled = await self._give_back(held, batch[done:], answer)
        stuck = {message.queue_offset for message in unsettled}
        self._finish(held, [message for message in batch if message.queue_offset not in stuck])
        if unsettled:
            self._spawn("local retry", self._retry_here(held, unsettled))

    async def _give_back(
        self, held: ProcessQueue, failed: Sequence[StoredMessage], answer: ConsumeResult
    ) -> list[StoredMessage]:
        """Send failed messages back; returns those that no broker took."""
        if self._send_back is None:
            log.warning("broadcasting group %s drops %d failed message(s) of %s", self._group, len(failed), held.queue)
            return []
        held.restore(failed, answer.error)
        level = self._config.retry_delay_level if answer.delay_level is None else answer.delay_level
        unsettled = []
        for message in failed:
            # A message whose listener ran too long was sent back already and is no longer in hand.
            if held.holds(message) and not await is_safe(self._send_back(message, level), message):
                message.reconsume_times += 1
                unsettled.append(message)
        return unsettled

    async def _retry_here(self, held: ProcessQueue, messages: list[StoredMessage]) -> None:
        for message in messages:
            held.started.pop(message.queue_offset, None)
        await self._clock.sleep(self._config.local_retry_ms / 1000)
        if not held.dropped and not self._is_stopping:
            self.submit(held, messages)

    def _finish(self, held: ProcessQueue, messages: Sequence[StoredMessage]) -> None:
        offset = held.finish(messages)
        if offset >= 0 and not held.dropped:
            self._offsets.update(held.queue, offset, increase_only=True)

    async def _send_expired_back(self, send_back: SendBackCall, queues: Queues) -> None:
        """A listener that hangs must not hold up its queue's commit for ever."""
        timeout = self._config.consume_timeout_ms / 1000
        before = self._clock.monotonic() - timeout
        for held in list(queues()):
            for message in held.expired(before, EXPIRED_AT_ONCE):
                log.warning("listener runs longer than %s s on %s: message sent back", timeout, message.message_id)
                pulled = copy(message)  # the listener works on the message still
                pulled.properties = dict(message.properties)
                held.restore([pulled], f"the listener ran longer than {timeout:g} s")
                if not held.dropped and await is_safe(send_back(pulled, EXPIRED_DELAY_LEVEL), message):
                    self._finish(held, [message])
