"""Setting a group back to a time, if none of its members is running.

Owns        the check that nobody is disturbed.
Must not know   the command line.
"""

from __future__ import annotations

from rocketlake.base.errors import UsageError
from rocketlake.client.calls import group as group_calls
from rocketlake.client.calls import offset as calls
from rocketlake.client.instance import ClientInstance
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.replay.cluster_reader import ClusterReader

__all__ = ["reset_group"]


async def reset_group(client: ClientInstance, group: str, topic: str, from_ms: int) -> dict[MessageQueue, int]:
    """The group reads the topic from this time on when it starts next. UsageError if it is running."""
    reader = ClusterReader(client)
    queues = await reader.queues(topic)
    await _refuse_members(client, group, topic, queues)
    offsets = {}
    for queue in queues:
        low, high = await reader.bounds(queue)
        # One earlier: answers of old brokers are off by one, and a message too many is better than one too few.
        offsets[queue] = min(high, max(low, await reader.near(queue, from_ms) - 1)) if from_ms >= 0 else low
    for queue, offset in offsets.items():
        address = await client.master(queue.broker_name, topic)
        await calls.commit_offset(client.net, address, group, queue, offset)
    await _refuse_members(client, group, topic, queues)
    return offsets


async def _refuse_members(client: ClientInstance, group: str, topic: str, queues: list[MessageQueue]) -> None:
    for broker in sorted({queue.broker_name for queue in queues}):
        address = await client.master(broker, topic)
        members = await group_calls.members(client.net, address, group)
        if members:
            raise UsageError(
                f"group {group} is running ({', '.join(members[:3])}), and would go on from its own offsets",
                hint="stop its members first, or replay into a topic of your own with --to-topic",
            )
