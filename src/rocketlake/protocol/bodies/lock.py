"""Bodies of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ.

Owns        their shape.
Must not know   the owners of queues.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from rocketlake.protocol.bodies.body import UNTYPED_BYTES_MAX, Body
from rocketlake.protocol.bodies.queue_map import QueueEntry


class LockBody(Body, kw_only=True):
    """LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    untyped_bytes_max: ClassVar[int | None] = UNTYPED_BYTES_MAX
    client_id: str
    consumer_group: str
    queues: list[QueueEntry] = field(default_factory=list, name="mqSet")
    only_this_broker: bool = False


class LockReply(Body, kw_only=True):
    """Answer of LOCK_BATCH_MQ: the queues the client owns now."""

    queues: list[QueueEntry] = field(default_factory=list, name="lockOKMQSet")
