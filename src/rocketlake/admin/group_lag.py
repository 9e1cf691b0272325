"""How long messages have waited for a group: the store time of the first one that it has not consumed, queue by queue.

Owns        the looks at these messages, how many are asked for at a time.
Must not know   members, how answers are shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from rocketlake.admin.cluster import Cluster
from rocketlake.base.errors import RocketLakeError
from rocketlake.client.calls import offset as calls
from rocketlake.client.calls.pull import pull
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import TOOLS_CONSUMER_GROUP
from rocketlake.model.subscription import parse_subscription
from rocketlake.protocol.bodies.stats import GroupOffsets

__all__ = ["held_since", "waiting_since"]

_AT_A_TIME = 32


async def waiting_since(cluster: Cluster, offsets: Mapping[MessageQueue, GroupOffsets]) -> dict[MessageQueue, int]:
    """Epoch ms, for the queues in which messages wait. A queue that cannot be read now is left out."""
    behind = {
        queue: each.consumer_offset for queue, each in offsets.items() if each.broker_offset > each.consumer_offset
    }
    masters, room = await cluster.masters(), asyncio.Semaphore(_AT_A_TIME)

    async def look(queue: MessageQueue, offset: int) -> int:
        everything = parse_subscription(queue.topic, None)
        async with room:
            found = await pull(
                cluster.net, masters[queue.broker_name], queue, group=TOOLS_CONSUMER_GROUP, offset=max(offset, 0),
                subscription=everything, max_messages=1, lite=True, around_damage=True,
            )  # fmt: skip
        return found.messages[0].store_ms if found.messages else 0

    reachable = {queue: offset for queue, offset in behind.items() if queue.broker_name in masters}
    return await _each(reachable, [look(queue, offset) for queue, offset in reachable.items()])


async def held_since(cluster: Cluster, queues: Mapping[MessageQueue, object]) -> dict[MessageQueue, int]:
    """When the oldest message that each queue keeps was stored, epoch ms. An empty queue is left out."""
    masters, room = await cluster.masters(), asyncio.Semaphore(_AT_A_TIME)

    async def look(queue: MessageQueue) -> int:
        async with room:
            return await calls.earliest_store_ms(cluster.net, masters[queue.broker_name], queue)

    reachable = dict.fromkeys(queue for queue in queues if queue.broker_name in masters)
    return await _each(reachable, [look(queue) for queue in reachable])


async def _each(
    queues: Mapping[MessageQueue, object], looking: list[Coroutine[Any, Any, int]]
) -> dict[MessageQueue, int]:
    answers = await asyncio.gather(*looking, return_exceptions=True)
    found = {}
    for queue, answer in zip(queues, answers, strict=True):
        if isinstance(answer, BaseException) and not isinstance(answer, RocketLakeError):
            raise answer
        if isinstance(answer, int) and answer > 0:
            found[queue] = answer
    return found
