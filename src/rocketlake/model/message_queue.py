"""One queue of a topic on one broker.

Owns        MessageQueue.
Must not know   where the broker is (route.py).
"""

from __future__ import annotations

import msgspec

__all__ = ["MessageQueue"]


class MessageQueue(msgspec.Struct, frozen=True, order=True, gc=False):
    """(topic, broker name, queue id); ordered in this order on all machines, since rebalancing relies on it."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"
