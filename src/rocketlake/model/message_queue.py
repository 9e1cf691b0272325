"""One queue of a topic on one broker.

Owns        MessageQueue.
Must not know   where the broker is (route.py).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MessageQueue"]


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """(topic, broker name, queue id); ordered in this order on all machines, since rebalancing relies on it."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"
