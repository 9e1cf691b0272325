"""The saves of a pull consumer at the brokers: first positions, commits of the user, resets by an operator.

Owns        the list of saves still to be made, and their order at the broker of each queue.
Must not know   messages, which queues are read.

Rule: the position at which a group starts to read a queue is saved before a message of that queue is handed out. If it
were not, a group that starts at the end would start at a later end after a crash. First positions are saved in the
background, all brokers at once: a silent broker holds back its own queues, and no poll.
Rule: of one queue only one save is under way at a time, so that a first position cannot arrive behind a reset.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.client.consumer.offset_store import OffsetStore
from rocketlake.model.message_queue import MessageQueue

__all__ = ["Commits"]

log = get_logger(__name__)
Spawn = Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Service.spawn of the consumer."""
SETTLE_SECONDS = 1.0


class GroupOffsets(Protocol):
    """The group's offsets at the brokers (QueueAccess). Both raise RocketLakeError."""

    async def committed(self, queue: MessageQueue) -> int:
        """The committed offset; -1 when there is none."""

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Save the offset at the queue's broker."""


class Commits:
    """The saves of one consumer; `saved` is called when a queue may be handed out or its save must be repeated."""

    def __init__(
        self,
        access: GroupOffsets,
        offsets: OffsetStore,
        *,
        spawn: Spawn,
        saved: Callable[[], None],
        clock: Clock,
        retry_seconds: float,
    ) -> None:
        self._access = access
        self._offsets = offsets
        self._spawn = spawn
        self._saved = saved
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._starts: dict[MessageQueue, int] = {}
        """The first position of each queue in which the group never committed."""
        self._under_way: list[dict[MessageQueue, int]] = []
        """The offsets that each running call of `commit` has still to save."""
        self._orders: defaultdict[MessageQueue, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._savers: dict[str, asyncio.Task[None]] = {}

    # first positions

    def begin(self, queue: MessageQueue, first: int) -> None:
        """The group starts here in a queue in which it never committed."""
        self._starts[queue] = first

    def forget_start(self, queue: MessageQueue) -> None:
        """The user chose another position: the first one is not saved."""
        self._starts.pop(queue, None)

    def holds_back(self, queue: MessageQueue) -> bool:
        """True while the first position of the queue is not saved."""
        return queue in self._starts

    def save_starts(self) -> None:
        """Save what `begin` noted, in the background."""
        for broker in dict.fromkeys(queue.broker_name for queue in self._starts):
            if broker not in self._savers:
                saver = self._spawn(f"first positions at {broker}", self._save_starts_at(broker))
                self._savers[broker] = saver
                saver.add_done_callback(partial(self._saver_ended, broker))

    def _saver_ended(self, broker: str, _: object) -> None:
        del self._savers[broker]
        self._saved()

    async def _save_starts_at(self, broker: str) -> None:
        failed = False
        for queue in [queue for queue in self._starts if queue.broker_name == broker]:
            try:
                await self._save_start(queue)
            except RocketLakeError as error:
                failed = True
                log.warning(
                    "the first position of %s is not saved, poll hands out none of its messages until it is; next try"
                    " in %g s: %s",
                    queue, self._retry_seconds, error,
                )  # fmt: skip
                if isinstance(error, LinkError):
                    break  # a broker out of reach is waited for once, not once for each queue
            else:
                self._saved()
        if failed:
            await self._clock.sleep(self._retry_seconds)

    async def _save_start(self, queue: MessageQueue) -> None:
        async with self._orders[queue]:
            first = self._starts.get(queue)
            if first is None:
                return
            # An operator's reset, or another member's commit, may have been faster: then it counts, not ours.
            is_first = await self._access.committed(queue) < 0
            if self._starts.get(queue) != first:
                return  # the queue was left, reset or committed while the broker was asked
            if is_first:
                await self._access.commit(queue, first)
            if self._starts.get(queue) == first:
                del self._starts[queue]

    async def settle(self) -> None:
        """At stop: give first positions that are on their way a moment to arrive."""
        if self._savers:
            await asyncio.wait(tuple(self._savers.values()), timeout=SETTLE_SECONDS)

    # commits

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Save these offsets and wait for the brokers. Raises RemoteError or LinkError of the first that fails."""
        left = dict(offsets)
        self._under_way.append(left)
        try:
            for queue, offset in offsets.items():
                async with self._orders[queue]:
                    if left.pop(queue, None) is None:
                        continue  # the queue was reset or left while another one was saved
                    await self._access.commit(queue, offset)
                self._offsets.update(queue, offset, increase_only=False)
                self._starts.pop(queue, None)
        finally:
            self._under_way = [each for each in self._under_way if each is not left]

    async def reset(self, queue: MessageQueue, offset: int) -> None:
        """An operator moved the group: save the new offset, and no older one behind it."""
        self.drop(queue)
        async with self._orders[queue]:
            await self._access.commit(queue, offset)
        self._offsets.update(queue, offset, increase_only=False)

    def drop(self, queue: MessageQueue) -> None:
        """Forget the saves of this queue that are not made yet."""
        self._starts.pop(queue, None)
        for left in self._under_way:
            left.pop(queue, None)
