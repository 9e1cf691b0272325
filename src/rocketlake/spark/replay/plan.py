"""The plan of a replay: for each source queue its range and its target queue, fixed once.

Owns        the range of a source queue, its queue in the target, the list of queues that are away.
Must not know   how messages are copied.

Rule: the plan of a queue never changes. A queue that is not in the route when the replay is planned (its broker is
away, the topic gets more queues) is planned by a later run, up to the time of the first one. The route names no queue
of a broker that is away; such a queue is known by the record, or by copies in the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketlake.base.errors import LinkError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.replay.cluster_reader import ClusterReader
from rocketlake.spark.replay.copies import Copies, copies_in
from rocketlake.spark.replay.kept_targets import KeptTargets
from rocketlake.spark.replay.record import RANGE_UNKNOWN, QueueRecord, ReplayRecord
from rocketlake.spark.replay.request import ReplayRequest

__all__ = ["QueuesAway", "ReplayPlan"]

_NAMED_AT_ONCE = 8


class QueuesAway(LinkError):
    """Queues of the replay that no broker of the route has: the replay is not done."""

    def __init__(self, queues: Sequence[MessageQueue], where: str) -> None:
        names = ", ".join(
            f"{queue.topic} at {queue.broker_name}, queue {queue.queue_id}" for queue in queues[:_NAMED_AT_ONCE]
        )
        more = f" and {len(queues) - _NAMED_AT_ONCE} more" if len(queues) > _NAMED_AT_ONCE else ""
        super().__init__(
            f"the replay is not done, these queues are not in the route: {names}{more}",
            where=where,
            hint="start their brokers, or give the topic its queues again; then run the same replay once more",
        )


class ReplayPlan:
    """`await plan.make()` completes the record; then `reachable` are the queues to copy, `away` the others."""

    def __init__(self, request: ReplayRequest, record: ReplayRecord, reader: ClusterReader, kept: KeptTargets) -> None:
        self._request = request
        self._record = record
        self._reader = reader
        self._kept = kept
        self._sendable: Sequence[MessageQueue] = ()
        self._numbers: dict[MessageQueue, int] = {}
        self.reachable: list[MessageQueue] = []
        self.away: list[MessageQueue] = []

    async def make(self, now_ms: int) -> None:
        """Plan the queues that are new, save the record, find out what cannot be reached."""
        record = self._record
        sources = await self._reader.queues(self._request.topic)
        self._numbers = {source: number for number, source in enumerate(sources)}
        new = [each for each in sources if each not in record.queues or record.queues[each].end == RANGE_UNKNOWN]
        if record.is_done and not new:
            return
        readable = await self._reader.queues(self._request.target)
        self._sendable = await self._reader.queues_to_send(self._request.target)
        until_ms = self._request.until_ms
        await self._kept.load()
        if not record.queues:
            # A first run, or a run whose record is lost: then copies may lie in queues that are out of reach.
            if hidden := sorted(self._kept.queues.difference(readable)):
                raise QueuesAway(hidden, f"topic {self._request.target}")
            record.begun_ms = now_ms
        elif until_ms < 0:
            until_ms = record.begun_ms
        if new:
            await self._add(new, readable, until_ms)
        await self._kept.add({each.target for each in record.queues.values()})
        for source, each in record.queues.items():
            if source not in self._numbers:
                self.away.append(source)
            elif each.target not in readable and not each.is_done:
                self.away.append(each.target)
            else:
                self.reachable.append(source)

    async def _add(self, new: Sequence[MessageQueue], readable: Sequence[MessageQueue], until_ms: int) -> None:
        # Search the whole target: if a record was lost, copies lie in the queues of that time.
        identity, topic = self._request.identity, self._request.topic
        looked = {each: await copies_in(self._reader, each, 0, identity, topic) for each in readable}
        for source in new:
            first, end = await self._range(source, until_ms)
            self._record.queues[source] = self._begin(source, first, end, until_ms, looked)
        unknown = {source for copies in looked.values() for source in copies.last} - self._record.queues.keys()
        for source in unknown:
            self._record.queues[source] = self._begin(source, 0, RANGE_UNKNOWN, until_ms, looked)
        self._record.save()

    def _begin(
        self, source: MessageQueue, first: int, end: int, until_ms: int, looked: dict[MessageQueue, Copies]
    ) -> QueueRecord:
        """Begin behind the last copy, in the target queue that holds it."""
        last, target = max(
            ((copies.last[source], target) for target, copies in looked.items() if source in copies.last),
            default=(-1, self.target_of(source)),
        )
        seen = looked[target].end if target in looked else 0
        return QueueRecord(max(first, last + 1), end, until_ms, seen, target)

    async def _range(self, queue: MessageQueue, until_ms: int) -> tuple[int, int]:
        low, high = await self._reader.bounds(queue)
        first, end = low, high
        # One more on each side: answers of old brokers are off by one, and each message's time is looked at anyway.
        if self._request.from_ms >= 0:
            first = max(low, await self._reader.near(queue, self._request.from_ms) - 1)
        if until_ms >= 0:
            end = min(high, await self._reader.near(queue, until_ms) + 2)
        return min(first, high), max(end, first)

    async def move(self, source: MessageQueue) -> MessageQueue:
        """Choose another target queue for a source queue whose target takes no messages now."""
        target = self.target_of(source)
        await self._kept.add([target])
        return target

    def is_sendable(self, target: MessageQueue) -> bool:
        """True if the target takes messages in this queue."""
        return target in self._sendable

    def target_of(self, source: MessageQueue) -> MessageQueue:
        """The queue of the target for a source queue that has none yet."""
        return self._sendable[self._numbers.get(source, 0) % len(self._sendable)]
