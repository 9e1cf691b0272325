"""The queue of a topic in which consumers will read a message that waited.

Owns        the replacement of a queue id that consumers no longer read.
Must not know   why a message waited, how it is stored.

A delayed or half message names the queue it is meant for. When the message is due, its topic may have fewer queues: in
the named queue no consumer would find the message (Apache puts it there). It goes to a queue that consumers read,
always to the same one for a queue id, so that messages of one key stay in order.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.topics.table import TopicTable

__all__ = ["ReadableQueue"]

_log = get_logger(__name__)


class ReadableQueue:
    """Finds the queue for a message that waited."""

    def __init__(self, topics: TopicTable, clock: Clock) -> None:
        self.moved = 0
        """Messages that went to another queue than they were meant for."""
        self._topics = topics
        self._warnings = RareWarnings(_log, interval_seconds=60, clock=clock)

    def __call__(self, topic: str, queue_id: int) -> int:
        """`queue_id` if consumers read this queue, else another queue that they read."""
        config = self._topics.get(topic)
        if config is None or queue_id < config.read_queues or config.read_queues <= 0:
            return queue_id
        found = queue_id % max(1, min(config.read_queues, config.write_queues))
        self.moved += 1
        self._warnings.warn(
            topic,
            "a message that waited was meant for queue %d of topic %s, which has %d read queues now: it goes to queue"
            " %d (%d messages moved since the start)",
            queue_id,
            topic,
            config.read_queues,
            found,
            self.moved,
        )
        return found
