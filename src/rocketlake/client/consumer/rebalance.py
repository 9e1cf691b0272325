"""Rounds in which a member works out its share of the queues, and takes or leaves queues.

Owns        the time of the rounds (every 20 s; at once when a broker says so), the list of members, the strategy.
Must not know   pulling, locks, listeners: the consumer takes and leaves queues (QueueOwner).

Rule: every member sorts the same queues and the same client ids and applies the same strategy, so all agree without
talking. While the route or the list of members is not known, a member keeps its queues and repeats the round soon.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.client.alarm import Alarm
from rocketlake.client.calls.assignment import Share
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.allocate import Allocate
from rocketlake.client.instance import ClientInstance
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import RETRY_PREFIX

log = get_logger(__name__)
STORM_PAUSE_SECONDS = 0.1


class QueueOwner(Protocol):
    """The consumer, as a rebalance sees it."""

    def queues(self) -> Collection[MessageQueue]:
        """Queues held now, of all topics."""

    def stale_queues(self) -> Collection[MessageQueue]:
        """Queues held but not pulled for too long: the round leaves and takes them again."""

    async def take(self, queue: MessageQueue) -> bool:
        """Begin with a queue; false: not possible now, the round is repeated soon."""

    async def leave(self, queue: MessageQueue) -> bool:
        """Give a queue up; false: not possible yet, the round is repeated soon."""

    def assigned(self, topic: str, own: Collection[MessageQueue]) -> None:
        """The queues of the topic changed."""


class ByBroker(Protocol):
    """Shares that a broker works out (pops/mode.py)."""

    @property
    def queues(self) -> QueueOwner:
        """The owner of the queues that are popped."""

    async def share(self, topic: str) -> Share | None:
        """The share of this member; None while it cannot be worked out."""


class Rebalance:
    """The rounds of one consumer."""

    def __init__(
        self,
        instance: ClientInstance,
        owner: QueueOwner,
        *,
        group: str,
        config: ConsumerConfig,
        allocate: Allocate,
        broadcasting: bool,
        clock: Clock,
        by_broker: ByBroker | None = None,
    ) -> None:
        """`by_broker`: not this member works out its share, a broker does."""
        self._instance = instance
        self._owner = owner
        self._by_broker = by_broker
        self._owners: list[QueueOwner] = [owner] if by_broker is None else [owner, by_broker.queues]
        self._group = group
        self._config = config
        self._allocate = allocate
        self._broadcasting = broadcasting
        self._clock = clock
        self._alarm = Alarm(clock)
        self._round_ended = Alarm(clock)
        self._warnings = RareWarnings(log, interval_seconds=600.0, clock=clock)
        self.topics: set[str] = set()
        self.is_paused = False

    def soon(self) -> None:
        """Do a round now (but not more often than ten times a second)."""
        self._alarm.ring()

    async def run(self) -> None:
        """A round, and the pause behind it."""
        balanced = self.is_paused or await self.once()
        self._round_ended.ring()
        if not balanced:
            await self._clock.sleep(self._config.rebalance_retry_ms / 1000)
        elif await self._alarm.wait(self._config.rebalance_interval_ms / 1000):
            # A storm of notifications (a rolling restart of the group) must not become a storm of rounds.
            await self._clock.sleep(STORM_PAUSE_SECONDS)

    async def next_ended(self, limit_seconds: float) -> bool:
        """Wait for the end of the next round of `run`; false when it takes longer than the limit."""
        self._round_ended = Alarm(self._clock)  # rounds before this call do not count
        return await self._round_ended.wait(limit_seconds)

    async def once(self) -> bool:
        """One round over all topics; true when the member holds exactly its share."""
        balanced = await self._leave_unsubscribed()
        for topic in sorted(self.topics):
            try:
                balanced &= await self._balance(topic)
            except RocketLakeError as error:
                log.warning("group %s keeps its queues of %s, the round failed: %s", self._group, topic, error)
                balanced = False
            except Exception:
                # Most likely the user's own strategy failed; one bad round must not end all rounds.
                log.exception("group %s keeps its queues of %s, the round failed", self._group, topic)
                balanced = False
        return balanced

    async def _leave_unsubscribed(self) -> bool:
        done = True
        for owner in self._owners:
            for queue in [queue for queue in owner.queues() if queue.topic not in self.topics]:
                done &= await owner.leave(queue)
        return done

    async def _balance(self, topic: str) -> bool:
        share = await self._share(topic)
        if share is None:
            return False
        fits = [
            (owner, wanted, await self._leave(owner, topic, wanted))
            for owner, wanted in zip(self._owners, share, strict=False)  # without a broker's word nothing is popped
        ]
        balanced = True
        for owner, wanted, left in fits:
            taken = await self._take(owner, topic, wanted)
            if any(left) or any(taken):
                owner.assigned(topic, _of_topic(owner, topic))
            balanced &= all(left) and all(taken)
        return balanced

    async def _leave(self, owner: QueueOwner, topic: str, wanted: Collection[MessageQueue]) -> list[bool]:
        stale = {queue for queue in owner.stale_queues() if queue.topic == topic}
        return [await owner.leave(queue) for queue in sorted((_of_topic(owner, topic) - set(wanted)) | stale)]

    async def _take(self, owner: QueueOwner, topic: str, wanted: Collection[MessageQueue]) -> list[bool]:
        if any(_of_topic(other, topic) for other in self._owners if other is not owner):
            return [False] if wanted else []  # what is pulled and popped at once comes twice
        # A queue that could not be left is still held and must not be taken a second time.
        return [await owner.take(queue) for queue in sorted(set(wanted) - _of_topic(owner, topic))]

    async def _share(self, topic: str) -> Share | None:
        if self._by_broker is not None:
            return await self._by_broker.share(topic)
        wanted = await self._wanted(topic)
        return None if wanted is None else Share(frozenset(wanted))

    async def _wanted(self, topic: str) -> set[MessageQueue] | None:
        """The share of this member; None while it cannot be worked out."""
        queues = await self._instance.queues_to_read(topic)
        if queues is None:
            return None
        if self._broadcasting:
            return set(queues)
        members = await self._instance.members(self._group, topic)
        own_id = self._instance.client_id
        if own_id not in members:
            # The broker has not seen our heartbeat yet, or has restarted: an empty share would drop all queues for
            # nothing.
            self._instance.heartbeat_soon()
            return None
        share = set(self._allocate(own_id, queues, sorted(members)))
        if not share and queues and not topic.startswith(RETRY_PREFIX):  # has one queue by design: one member gets it
            self._warnings.warn(
                f"none {topic}",
                "group %s: this member gets no queue of topic %s and reads nothing of it (queues: %d, members: %d)",
                self._group, topic, len(queues), len(members),
            )  # fmt: skip
        return share


def _of_topic(owner: QueueOwner, topic: str) -> set[MessageQueue]:
    return {queue for queue in owner.queues() if queue.topic == topic}
