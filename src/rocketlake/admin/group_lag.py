"""How long messages have waited for a group: the store time of the first one that it has not consumed, queue by queue.

Owns        the looks at these messages.
Must not know   members, how answers are shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from rocketlake.admin.cluster import Cluster
from rocketlake.base.errors import RocketLakeError
from rocketlake.client.calls import offset as calls
from rocketlake.client.calls.pull import pull
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import TOOLS_CONSUMER_GROUP
from rocketlake.model.subscription import parse_subscription
from rocketlake.net.client import some_at_once
from rocketlake.protocol.bodies.stats import GroupOffsets

__all__ = ["held_since", "waiting_since"]


async def waiting_since(cluster: Cluster, offsets: Mapping[MessageQueue, GroupOffsets]) -> dict[MessageQueue, int]:
    """Epoch ms, for the queues in which messages wait. A queue that cannot be read now is left out."""
    behind = {
        queue: each.consumer_offset for queue, each in offsets.items() if each.broker_offset > each.consumer_offset
    }

    async def look(address: str, queue: MessageQueue) -> int:
        found = await pull(
            cluster.net, address, queue, group=TOOLS_CONSUMER_GROUP, offset=max(behind[queue], 0),
            subscription=parse_subscription(queue.topic, None), max_messages=1, lite=True, around_damage=True,
        )  # fmt: skip
        return found.messages[0].store_ms if found.messages else 0

    return await _at_each(cluster, look, behind)


async def held_since(cluster: Cluster, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
    """When the oldest message that each queue keeps was stored, epoch ms. An empty queue is left out."""

    async def look(address: str, queue: MessageQueue) -> int:
        return await calls.earliest_store_ms(cluster.net, address, queue)

    return await _at_each(cluster, look, queues)


async def _at_each(
    cluster: Cluster, look: Callable[[str, MessageQueue], Awaitable[int]], queues: Iterable[MessageQueue]
) -> dict[MessageQueue, int]:
    """The times that looks at the masters of these queues found; without those that found none."""
    masters = await cluster.masters()

    async def time_of(queue: MessageQueue) -> int:
        try:
            return await look(masters[queue.broker_name], queue)
        except RocketLakeError:
            return 0

    reachable = [queue for queue in queues if queue.broker_name in masters]
    times = zip(reachable, await some_at_once(time_of, reachable), strict=True)
    return {queue: time for queue, time in times if time > 0}
