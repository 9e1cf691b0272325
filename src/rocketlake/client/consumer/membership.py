"""A consumer's place in its group: its part of heartbeats, its answers to brokers and operators.

Owns        the heartbeat entry, the answers to "running info" and "offsets", shared by push and pull consumers.
Must not know   how messages are consumed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from enum import Enum

from rocketlake.client.config import MIB, FirstOffset
from rocketlake.client.consumer.offset_store import OffsetStore
from rocketlake.client.consumer.process_queue import ProcessQueue
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import Subscription
from rocketlake.protocol.bodies import heartbeat
from rocketlake.protocol.bodies.client import (
    ConsumeDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueEntry,
)
from rocketlake.protocol.bodies.heartbeat import ConsumerEntry, SubscriptionEntry
from rocketlake.protocol.versions import OUR_VERSION, version_name


class ConsumeType(Enum):
    """How a consumer gets messages, as brokers see it."""

    ACTIVELY = heartbeat.CONSUME_ACTIVELY
    PASSIVELY = heartbeat.CONSUME_PASSIVELY


class Membership:
    """The ConsumerMember of a push or pull consumer; what differs between the two comes in as functions."""

    def __init__(
        self,
        group: str,
        *,
        kind: ConsumeType,
        broadcasting: bool,
        orderly: bool,
        from_where: FirstOffset,
        subscriptions: Mapping[str, Subscription],
        offsets: OffsetStore,
        queues: Callable[[], Collection[MessageQueue]],
        held: Callable[[], Collection[ProcessQueue]],
        rebalance_soon: Callable[[], None],
        persist: Callable[[], Awaitable[None]],
        reset: Callable[[str, Mapping[MessageQueue, int]], Awaitable[None]],
        consume_directly: Callable[[StoredMessage], Awaitable[ConsumeDirectlyResult]] | None,
        properties: Callable[[], dict[str, str]],
        status: Callable[[], dict[str, ConsumeStatus]] = dict,
        lite_taken: Callable[[str], object] = lambda _lite: None,
    ) -> None:
        """`status`: rates by topic; nothing of a consumer that is asked for messages, whose user sets its pace."""
        self._group = group
        self._kind = kind
        self._broadcasting = broadcasting
        self._orderly = orderly
        self._from_where = from_where
        self._subscriptions = subscriptions
        self._offsets = offsets
        self._queues = queues
        self._held = held
        self._properties = properties
        self._status = status
        self.rebalance_soon = rebalance_soon
        self.persist_offsets = persist
        self.reset_offsets = reset
        self.consume_directly = consume_directly
        self.lite_taken = lite_taken

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._group

    @property
    def topics(self) -> Collection[str]:
        """Subscribed topics, a retry topic among them."""
        return sorted(self._subscriptions)

    def registration(self) -> ConsumerEntry:
        """This consumer's part of the heartbeat."""
        return ConsumerEntry(
            group_name=self._group,
            consume_type=self._kind.value,
            message_model=heartbeat.BROADCASTING if self._broadcasting else heartbeat.CLUSTERING,
            consume_from_where=self._from_where.value,
            subscriptions=self._subscription_entries(),
        )

    def offsets(self, topic: str) -> dict[MessageQueue, int]:
        """Offsets known in memory for the queues held of this topic."""
        return {queue: self._offsets.memory(queue) for queue in self._queues() if queue.topic == topic}

    def running_info(self) -> ConsumerRunningInfo:
        """The queues of this consumer, its messages in hand, its rates."""
        properties = {
            "PROP_CONSUME_TYPE": self._kind.value,
            "PROP_CLIENT_VERSION": version_name(OUR_VERSION),
            "PROP_CONSUMEORDERLY": "true" if self._orderly else "false",
            **self._properties(),
        }
        return ConsumerRunningInfo(
            properties=properties,
            subscriptions=self._subscription_entries(),
            queues={held.queue: self._entry(held) for held in self._held()},
            status=self._status(),
        )

    def _subscription_entries(self) -> list[SubscriptionEntry]:
        return [SubscriptionEntry.from_model(subscription) for subscription in self._subscriptions.values()]

    def _entry(self, held: ProcessQueue) -> ProcessQueueEntry:
        return ProcessQueueEntry(
            commit_offset=self._offsets.memory(held.queue),
            cached_msg_min_offset=max(held.lowest, 0),
            cached_msg_max_offset=max(held.highest, 0),
            cached_msg_count=held.count,
            cached_msg_size_in_mi_b=held.size // MIB,
            locked=held.locked,
            dropped=held.dropped,
        )
