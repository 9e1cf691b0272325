"""The copies of a replay in its target topic.

Owns        the two properties that mark a copy, the search through a queue of the target.
Must not know   the plan of a replay, the place of records.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketlake.base.errors import StoreError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import parse_subscription
from rocketlake.spark.replay.cluster_reader import ClusterReader

__all__ = ["FROM", "REPLAY", "Copies", "copies_in", "place_of"]

REPLAY = "REPLAY_ID"
"""Property of a copy: which replay made it."""
FROM = "REPLAY_FROM"
"""Property of a copy: broker/queue/offset of the original."""


@dataclass
class Copies:
    """Copies found in one queue of the target."""

    end: int
    """The search went up to this offset of the queue."""
    last: dict[MessageQueue, int] = field(default_factory=dict)
    """Source queue -> offset of the newest original that has a copy here."""


def place_of(queue: MessageQueue, offset: int) -> str:
    """The value of FROM."""
    return f"{queue.broker_name}/{queue.queue_id}/{offset}"


async def copies_in(reader: ClusterReader, target: MessageQueue, start: int, identity: str, source: str) -> Copies:
    """Copies that the replay `identity` of topic `source` made in this queue, from offset `start` on."""
    low, high = await reader.bounds(target)
    position = max(low, start)
    found = Copies(max(position, high))
    everything = parse_subscription(target.topic, None)
    while position < high:
        answer = await reader.pull(target, position, everything)
        # A damaged copy counts while its properties can be read; the others are found by the copies behind them.
        damaged = [each.message for each in answer.damaged if each.message is not None]
        for message in [*answer.messages, *damaged]:
            if message.properties.get(REPLAY) == identity:
                broker, queue_id, offset = message.properties[FROM].rsplit("/", 2)
                queue = MessageQueue(source, broker, int(queue_id))
                found.last[queue] = max(found.last.get(queue, -1), int(offset))
        if answer.next_offset <= position:
            raise StoreError(f"{target} cannot be read at offset {position}", hint="look at the broker's log")
        position = answer.next_offset
    return found
