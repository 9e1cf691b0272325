"""The offset at which this member begins to read a queue.

Owns        the table: committed offset, else by FirstOffset and kind of topic.
Must not know   pulling.

Rule: without a committed offset LAST starts at the end, FIRST at 0 (the broker corrects it), TIMESTAMP by time; a retry
topic starts at 0 (with TIMESTAMP at its end). Brokers answer "0" themselves for a young topic, even with LAST.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rocketlake.client.config import MINUTE, FirstOffset
from rocketlake.client.consumer.offset_store import OffsetStore
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import RETRY_PREFIX

TIMESTAMP_BACK_MS = 30 * MINUTE
"""How far back a group starts that wants TIMESTAMP and names no time."""


@dataclass(frozen=True, slots=True)
class StartPolicy:
    """Where a new group starts; `timestamp_ms` (wall clock) goes with TIMESTAMP."""

    where: FirstOffset
    timestamp_ms: int
    end_of: Callable[[MessageQueue], Awaitable[int]]
    by_time: Callable[[MessageQueue, int], Awaitable[int]]

    async def first_offset(self, offsets: OffsetStore, queue: MessageQueue) -> int:
        """The offset to pull first; raises when the committed offset cannot be read."""
        committed = await offsets.read(queue)
        return committed if committed >= 0 else await self.without_commit(queue)

    async def without_commit(self, queue: MessageQueue) -> int:
        """The offset to pull first in a queue that the group never committed."""
        is_retry = queue.topic.startswith(RETRY_PREFIX)
        if self.where is FirstOffset.TIMESTAMP:
            return await (self.end_of(queue) if is_retry else self.by_time(queue, self.timestamp_ms))
        if self.where is FirstOffset.LAST and not is_retry:
            return await self.end_of(queue)
        return 0
