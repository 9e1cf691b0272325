"""Copying a range of one topic into another, each message once over any number of runs and crashes.

Owns        the rule by which a message is known to be replayed, the order of sending and noting.
Must not know   where records are kept, the command line.

Rule: each source queue goes into one target queue, in order, one batch at a time, and each copy carries the replay's
name and its source position. So what is in the target is a prefix of what is to be copied: whoever starts (after a
crash, a failed send, a lost record) looks for the last copy there and goes on behind it. The record only shortens the
look: every copy noted in it lies before `seen`, every other one at `seen` or later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rocketlake.base.crash_point import crash_point
from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError, StoreError
from rocketlake.client.calls.pull import PullStatus
from rocketlake.client.errors import BatchFailed, NoRoute
from rocketlake.client.instance import ClientInstance
from rocketlake.client.producer.producer import Producer
from rocketlake.model import property_names as names
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import parse_subscription
from rocketlake.spark.replay.cluster_reader import ClusterReader
from rocketlake.spark.replay.record import QueueRecord, ReplayRecord
from rocketlake.spark.replay.request import ReplayRequest

__all__ = ["FROM", "REPLAY", "CopyProgress", "TopicCopy"]

REPLAY = "REPLAY_ID"
"""Property of a copy: which replay made it."""
FROM = "REPLAY_FROM"
"""Property of a copy: broker/queue/offset of the original."""
_KEPT = frozenset((names.TAGS, names.KEYS, names.UNIQUE_KEY))
"""Properties of RocketMQ's own that a copy keeps; others say how the original travelled."""
_SEND_TRIES = 20
_SETTLE_SECONDS = 3.5
"""After a send without an answer: a broker refuses a request that waited this long, so it is stored by now or never."""
_SAVE_SECONDS = 1.0


@dataclass
class CopyProgress:
    """Numbers of one run; `left` counts source messages still to be looked at."""

    copied: int = 0
    found: int = 0
    left: int = 0


class TopicCopy:
    """`await TopicCopy(...).run()` copies what is not there yet and returns the numbers."""

    def __init__(
        self,
        request: ReplayRequest,
        record: ReplayRecord,
        client: ClientInstance,
        producer: Producer,
        on_progress: Callable[[CopyProgress], None] = lambda progress: None,
    ) -> None:
        self._request = request
        self._record = record
        self._client = client
        self._reader = ClusterReader(client)
        self._producer = producer
        self._on_progress = on_progress
        self._subscription = request.subscription()
        self._saved_at = 0.0
        self.progress = CopyProgress()

    async def run(self) -> CopyProgress:
        """Copy. A replay that is done copies nothing."""
        if self._record.is_done:
            return self.progress
        targets = await self._target_queues()
        pairs = await self._plan(targets)
        self.progress.left = sum(max(0, each.end - each.next) for each in self._record.queues.values())
        async with asyncio.TaskGroup() as tasks:
            for source, target in pairs.items():
                tasks.create_task(self._copy_queue(source, target))
        self._record.is_done = True
        self._record.save()
        return self.progress

    async def _target_queues(self) -> list[MessageQueue]:
        try:
            return await self._reader.queues(self._request.target)
        except NoRoute as error:
            raise NoRoute(self._request.target, self._client.name_servers.addresses, purpose="send") from error

    async def _plan(self, targets: Sequence[MessageQueue]) -> dict[MessageQueue, MessageQueue]:
        """Source queue -> target queue; the range of each source queue is fixed by the first run."""
        sources = await self._reader.queues(self._request.topic)
        pairs = {source: targets[number % len(targets)] for number, source in enumerate(sources)}
        if not self._record.queues:
            for source, target in pairs.items():
                first, end = await self._range(source)
                # Not the target's end: if a record was lost, copies of ours lie before it.
                self._record.queues[source] = QueueRecord(first, end, (await self._reader.bounds(target))[0])
            self._record.save()
        return {source: pairs[source] for source in self._record.queues if source in pairs}

    async def _range(self, queue: MessageQueue) -> tuple[int, int]:
        low, high = await self._reader.bounds(queue)
        first, end = low, high
        # One more on each side: answers of old brokers are off by one, and each message's time is looked at anyway.
        if self._request.from_ms >= 0:
            first = max(low, await self._reader.near(queue, self._request.from_ms) - 1)
        if self._request.until_ms >= 0:
            end = min(high, await self._reader.near(queue, self._request.until_ms) + 2)
        return min(first, high), max(end, first)

    async def _copy_queue(self, source: MessageQueue, target: MessageQueue) -> None:
        record = self._record.queues[source]
        await self._look_for_copies(source, target)
        failures = 0
        while record.next < record.end:
            try:
                await self._copy_some(source, target)
                failures = 0
            except (BatchFailed, LinkError, RemoteError) as error:
                failures += 1
                if failures == _SEND_TRIES or isinstance(error, MessagesGone):
                    raise
                await self._client.clock.sleep(_SETTLE_SECONDS)
                await self._look_for_copies(source, target)

    async def _look_for_copies(self, source: MessageQueue, target: MessageQueue) -> None:
        """Find the last copy of this queue's messages in the target, and go on behind it."""
        record = self._record.queues[source]
        low, high = await self._reader.bounds(target)
        position = max(low, record.seen)
        mine = f"{source.broker_name}/{source.queue_id}/"
        everything = parse_subscription(target.topic, None)
        while position < high:
            answer = await self._reader.pull(target, position, everything)
            for message in answer.messages:
                place = message.properties.get(FROM, "")
                if message.properties.get(REPLAY) == self._request.identity and place.startswith(mine):
                    offset = int(place.removeprefix(mine))
                    if offset >= record.next:
                        self._advance(record, offset + 1)
                        self.progress.found += 1
            if answer.next_offset <= position:
                raise StoreError(f"{target} cannot be read at offset {position}", hint="look at the broker's log")
            position = answer.next_offset
        record.seen = max(record.seen, high)

    def _advance(self, record: QueueRecord, position: int) -> None:
        position = min(position, record.end)
        self.progress.left -= position - record.next
        record.next = position
        self._on_progress(self.progress)

    async def _copy_some(self, source: MessageQueue, target: MessageQueue) -> None:
        record = self._record.queues[source]
        answer = await self._reader.pull(source, record.next, self._subscription)
        if answer.status is PullStatus.OFFSET_ILLEGAL or answer.min_offset > record.next:
            raise MessagesGone(source, record.next, answer.min_offset)
        if answer.status is PullStatus.NO_NEW_MESSAGE:
            self._advance(record, record.end)
            return
        wanted = [message for message in answer.messages if self._is_wanted(message, record.end)]
        if wanted:
            copies = [self._copy(message, source) for message in wanted]
            results = await self._producer.send_batch(copies, queue=target)
            crash_point("replay.after_send")
            self.progress.copied += len(copies)
            self._record.copied += len(copies)
            record.seen = max(record.seen, results[-1].queue_offset + 1)
        self._advance(record, answer.next_offset)
        self._save_now_and_then()

    def _is_wanted(self, message: StoredMessage, end: int) -> bool:
        request, subscription = self._request, self._subscription
        if message.queue_offset >= end or message.store_ms < request.from_ms:
            return False
        if request.until_ms >= 0 and message.store_ms >= request.until_ms:
            return False
        # Brokers filter by the hash of a tag.
        return not subscription.tags or message.tags in subscription.tags

    def _copy(self, message: StoredMessage, source: MessageQueue) -> Message:
        own = {name: value for name, value in message.properties.items() if name not in names.RESERVED or name in _KEPT}
        own[names.UNIQUE_KEY] = message.message_id
        own[REPLAY] = self._request.identity
        own[FROM] = f"{source.broker_name}/{source.queue_id}/{message.queue_offset}"
        return Message(self._request.target, message.body, properties=own, flag=message.flag)

    def _save_now_and_then(self) -> None:
        now = self._client.clock.monotonic()
        if now - self._saved_at >= _SAVE_SECONDS:
            self._saved_at = now
            self._record.save()


class MessagesGone(RemoteError):
    """Messages of the range expired before they were replayed."""

    def __init__(self, queue: MessageQueue, wanted: int, low: int) -> None:
        super().__init__(
            f"messages {wanted} to {low - 1} of {queue} are gone",
            code=0,
            hint="replay a later range: these expired while the replay was waiting",
        )


def failed_with(group: BaseExceptionGroup[BaseException]) -> RocketLakeError | None:
    """The first error of ours among those of the queues."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            return failed_with(error)
        if isinstance(error, RocketLakeError):
            return error
    return None
