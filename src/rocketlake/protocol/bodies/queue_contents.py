"""Answer of QUERY_CONSUME_QUEUE.

Owns        its shape.
Must not know   queues on disk.
"""

from __future__ import annotations

from msgspec import field

from rocketlake.protocol.bodies.body import Body, Entry
from rocketlake.protocol.bodies.heartbeat import SubscriptionEntry


class QueueContentsEntry(Entry, kw_only=True):
    """One entry of a consume queue; Apache's other members belong to queue extensions."""

    physic_offset: int
    physic_size: int
    tags_code: int
    eval: bool = False


class QueueContents(Body, kw_only=True):
    """Entries, the ends of the queue, and the subscription of the group that was named."""

    subscription_data: SubscriptionEntry | None = None
    filter_data: str | None = None
    queue_data: list[QueueContentsEntry] = field(default_factory=list)
    max_queue_index: int = 0
    min_queue_index: int = 0
