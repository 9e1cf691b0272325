"""Copying a range of one topic into another, each message once over any number of runs and crashes.

Owns        the rule that tells copied messages, the order of sends and notes.
Must not know   the place of records, how ranges are chosen (plan.py), the command line.

Rule: each source queue goes into one target queue, in order, one batch at a time, and each copy carries the replay's
name and its source position. So the copies in the target are a prefix of the plan: a run (after a crash, a
failed send, a lost record) looks for the last copy there and goes on behind it. The record keeps the target queue and
shortens the search: every copy noted in the record lies before `seen`, every other copy at `seen` or later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rocketlake.base.crash_point import crash_point
from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.client.wire import BatchFailed, ClientInstance, Producer, PullAnswer, PullStatus, not_safe
from rocketlake.model import property_names as names
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.replay.cluster_reader import ClusterReader
from rocketlake.spark.replay.copies import FROM, REPLAY, copies_in, place_of
from rocketlake.spark.replay.damage import copyable, why_unsendable
from rocketlake.spark.replay.kept_targets import KeptTargets
from rocketlake.spark.replay.plan import QueuesAway, ReplayPlan
from rocketlake.spark.replay.record import QueueRecord, ReplayRecord
from rocketlake.spark.replay.request import ReplayRequest

__all__ = ["CopyProgress", "MessagesGone", "TopicCopy", "failed_with"]

log = get_logger(__name__)
_KEPT = frozenset((names.TAGS, names.KEYS, names.UNIQUE_KEY))
"""Properties of RocketMQ itself that a copy keeps; the others belong to the transport of the original."""
_SEND_TRIES = 20
_SETTLE_SECONDS = 3.5
"""After a send without an answer: a broker refuses a request that waited this long, so it is stored by now or never."""
_SAVE_SECONDS = 1.0
_EMPTY_TRIES = 10
_EMPTY_PAUSE_SECONDS = 0.5
"""A broker that has just come back may not see the end of its queues yet."""


@dataclass
class CopyProgress:
    """Numbers of one run; `left` counts source messages still to be read.

    `damaged` were copied with their bodies as they are stored, `lost` are those that cannot be copied.
    """

    copied: int = 0
    damaged: int = 0
    lost: int = 0
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
        self._told: set[tuple[MessageQueue, int]] = set()
        """Source messages whose damage was logged; a run may meet them again."""
        self.progress = CopyProgress()

    async def run(self) -> CopyProgress:
        """Copy the messages in reach.

        A finished replay copies none. Raises QueuesAway while queues are out of reach.
        """
        plan = ReplayPlan(self._request, self._record, self._reader, KeptTargets(self._client, self._request))
        await plan.make(self._client.clock.now_ms())
        self.progress.left = sum(each.left for each in self._record.queues.values())
        async with asyncio.TaskGroup() as tasks:
            for source in plan.reachable:
                tasks.create_task(self._copy_queue(source, plan))
        self._record.save()
        if plan.away:
            raise QueuesAway(plan.away, "name server " + ";".join(self._client.name_servers.addresses))
        return self.progress

    async def _copy_queue(self, source: MessageQueue, plan: ReplayPlan) -> None:
        record = self._record.queues[source]
        if record.is_done:
            return
        await self._look_for_copies(source)
        if not plan.is_sendable(record.target):
            # The copies in the old queue were found just now, so the rest may go to another queue.
            record.target, record.seen = await plan.move(source), 0
            self._record.save()
            await self._look_for_copies(source)
        failures = 0
        while not record.is_done:
            try:
                await self._copy_some(source)
                failures = 0
            except (BatchFailed, LinkError, RemoteError) as error:
                failures += 1
                if failures == _SEND_TRIES or isinstance(error, MessagesGone):
                    raise
                await self._client.clock.sleep(_SETTLE_SECONDS)
                await self._look_for_copies(source)

    async def _look_for_copies(self, source: MessageQueue) -> None:
        """Find the last copy of this queue's messages in its target, and go on behind it."""
        record = self._record.queues[source]
        copies = await copies_in(self._reader, record.target, record.seen, self._request.identity, source.topic)
        last = copies.last.get(source, -1)
        if last >= record.next:
            self._advance(record, last + 1)
            self.progress.found += 1
        record.seen = max(record.seen, copies.end)

    def _advance(self, record: QueueRecord, position: int) -> None:
        position = min(position, record.end)
        self.progress.left -= position - record.next
        record.next = position
        self._on_progress(self.progress)

    async def _copy_some(self, source: MessageQueue) -> None:
        record = self._record.queues[source]
        answer = await self._pull(source, record)
        found = copyable(answer, record.next, record.end, is_filtered=self._request.is_filtered)
        originals = {message.queue_offset: message for message in found.messages if self._is_wanted(message, record)}
        copies = {offset: self._copy(message, source) for offset, message in originals.items()}
        limit = self._producer.config.message_bytes_max
        refused = {offset: why for offset, copy in copies.items() if (why := why_unsendable(copy, limit))}
        sent = [copy for offset, copy in copies.items() if offset not in refused]
        # Logged before the send: if its answer is lost, the next run finds the copies and logs nothing.
        self._tell(source, {at: why for at, why in found.damaged.items() if at in copies}, found.lost | refused)
        if sent:
            results = await self._producer.send_batch(sent, queue=record.target)
            crash_point("replay.after_send")
            if late := not_safe(self._request.target, results):
                raise late
            self.progress.copied += len(sent)
            self._record.copied += len(sent)
            record.seen = max(record.seen, results[-1].queue_offset + 1)
        self._advance(record, answer.next_offset)
        self._save_now_and_then()

    def _tell(self, source: MessageQueue, damaged: Mapping[int, str], lost: Mapping[int, str]) -> None:
        found = {offset: "is copied as it is stored" for offset in damaged.keys() - lost.keys()}
        found |= dict.fromkeys(lost, "cannot be copied")
        for offset, fate in sorted(found.items()):
            if (source, offset) in self._told:
                continue
            self._told.add((source, offset))
            if offset in lost:
                self.progress.lost += 1
            else:
                self.progress.damaged += 1
            reason = lost.get(offset) or damaged[offset]
            log.error("the message at offset %d of %s %s: %s", offset, source, fate, reason)

    async def _pull(self, source: MessageQueue, record: QueueRecord) -> PullAnswer:
        """An answer with a later next offset. Raises MessagesGone if planned messages are no longer in the queue."""
        for _ in range(_EMPTY_TRIES):
            answer = await self._reader.pull(source, record.next, self._subscription)
            if answer.min_offset > record.next:
                raise MessagesGone(source, record.next, min(answer.min_offset, record.end))
            if answer.status in (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE) and answer.next_offset > record.next:
                return answer
            await self._client.clock.sleep(_EMPTY_PAUSE_SECONDS)
        raise MessagesGone(source, record.next, record.end)

    def _is_wanted(self, message: StoredMessage, record: QueueRecord) -> bool:
        request, subscription = self._request, self._subscription
        if message.queue_offset >= record.end or message.store_ms < request.from_ms:
            return False
        if record.until_ms >= 0 and message.store_ms >= record.until_ms:
            return False
        # Brokers filter by the hash of a tag.
        return not subscription.tags or message.tags in subscription.tags

    def _copy(self, message: StoredMessage, source: MessageQueue) -> Message:
        own = {name: value for name, value in message.properties.items() if name not in names.RESERVED or name in _KEPT}
        own[names.UNIQUE_KEY] = message.message_id
        own[REPLAY] = self._request.identity
        own[FROM] = place_of(source, message.queue_offset)
        return Message.with_properties(self._request.target, message.body, own, flag=message.flag)

    def _save_now_and_then(self) -> None:
        now = self._client.clock.monotonic()
        if now - self._saved_at >= _SAVE_SECONDS:
            self._saved_at = now
            self._record.save()


class MessagesGone(RemoteError):
    """Messages of the range are not there any more: [start, end)."""

    def __init__(self, queue: MessageQueue, start: int, end: int) -> None:
        super().__init__(
            f"messages {start} to {end - 1} of topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id} "
            "are gone: they expired, or the topic was cut or made anew",
            code=0,
            hint="replay what is left as another time range, with --from; what was stored before is copied",
        )


def failed_with(group: BaseExceptionGroup[BaseException]) -> RocketLakeError | None:
    """The first error of ours among those of the queues."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            return failed_with(error)
        if isinstance(error, RocketLakeError):
            return error
    return None
