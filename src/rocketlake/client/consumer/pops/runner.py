"""Gives popped messages to the listener, and settles each by its answer.

Owns        the steps around one call of the listener: too late, done with, later, given up.
Must not know   pops, the workers (concurrent.py).

Rules (RocketMQ's ConsumeMessagePopConcurrentlyService): what waited here for longer than its time is left alone, for it
comes to another member. A message that is to come later gets a new time, which grows with its tries; its broker counts
them. Departures: while the listener runs, the time is renewed; after the last try the message goes to the dead letters,
where RocketMQ's client drops it; a delay level that the listener names is one of those that messages have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.listener import ConsumeResult, ListenerCall
from rocketlake.client.consumer.pops.access import PopAccess
from rocketlake.client.consumer.pops.acks import Acks
from rocketlake.client.consumer.pops.popped_queues import PoppedQueue
from rocketlake.client.consumer.pops.renewals import Renewals
from rocketlake.client.consumer.running import consume
from rocketlake.client.hooks import Hooks
from rocketlake.model import property_names as names
from rocketlake.model.delay_levels import DEFAULT_LEVELS, DelayLevels
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue

__all__ = ["PopRunner", "later_ms"]

log = get_logger(__name__)
Job = Callable[[], Awaitable[None]]
_LATER_SECONDS = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""RocketMQ's popDelayLevel: by the tries so far."""
_LEVELS = DelayLevels(DEFAULT_LEVELS)


def later_ms(level: int, tries: int) -> int:
    """After how long a failed message comes again; `level` 0: by its tries."""
    if level > 0:
        return _LEVELS.delay_ms(level)
    return _LATER_SECONDS[min(tries, len(_LATER_SECONDS) - 1)] * 1000


class PopRunner:
    """The listener calls of popped messages."""

    def __init__(
        self,
        call: ListenerCall,
        submit_job: Callable[[Job], None],
        *,
        pops: PopAccess,
        acks: Acks,
        renewals: Renewals,
        to_dead_letters: Callable[[StoredMessage], Awaitable[None]],
        group: str,
        config: ConsumerConfig,
        hooks: Hooks,
        clock: Clock,
    ) -> None:
        """`submit_job`: run this on a worker of the consumer."""
        self._call = call
        self._submit_job = submit_job
        self._pops = pops
        self._acks = acks
        self._renewals = renewals
        self._to_dead_letters = to_dead_letters
        self._group = group
        self._config = config
        self._hooks = hooks
        self._clock = clock

    def submit(self, popped: PoppedQueue, messages: Sequence[StoredMessage]) -> None:
        """Hand messages over, in pieces of `batch_size`."""
        size = self._config.batch_size
        for start in range(0, len(messages), size):
            self._submit_job(partial(self._work, popped, messages[start : start + size]))

    async def _work(self, popped: PoppedQueue, batch: Sequence[StoredMessage]) -> None:
        try:
            fresh = [message for message in batch if not self._pops.is_over(message)]
            if fresh:
                await self._consume(fresh)
        finally:
            popped.count -= len(batch)

    async def _consume(self, batch: list[StoredMessage]) -> None:
        bodies = [message.body for message in batch]  # the listener may change the messages
        queue = MessageQueue(batch[0].topic, batch[0].broker_name, batch[0].queue_id)
        self._renewals.begin(batch, self._config.pop_invisible_ms)
        try:
            answer = await consume(self._call, self._group, queue, batch, self._hooks, self._clock)
        finally:
            for message in batch:
                self._renewals.end(message)
        await self._pops.quiet(batch)
        if answer is None:
            return  # the listener did not look at the messages: they come again
        done = answer.count_done(len(batch))
        self._acks.add(batch[:done])
        for message, body in zip(batch[done:], bodies[done:], strict=True):
            await self._settle(message, body, answer)

    async def _settle(self, message: StoredMessage, body: bytes, answer: ConsumeResult) -> None:
        """The listener failed with the message: it comes later, or is given up."""
        level = self._config.retry_delay_level if answer.delay_level is None else answer.delay_level
        try:
            if level < 0 or message.reconsume_times >= self._config.reconsume_limit(orderly=False):
                await self._to_dead_letters(_letter(message, body, answer.error))
                self._acks.add([message])
            else:
                await self._pops.change(message, later_ms(level, message.reconsume_times))
        except RocketLakeError as error:
            log.warning("message %s comes again when its time is over: %s", message.message_id, error)


def _letter(message: StoredMessage, body: bytes, error: str | None) -> StoredMessage:
    letter = copy(message)
    letter.body, letter.properties = body, dict(message.properties)
    letter.properties.pop(names.POP_CK, None)
    if error is not None:
        letter.properties[names.LAST_ERROR] = error
    return letter
