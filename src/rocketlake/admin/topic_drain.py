"""A topic emptied for its consumers before its queues change, so that no message of a key overtakes an older one.

Owns        the time in which a topic takes no messages, when every group has read it.
Must not know   what changes then (topic_change.py).

Rule: the topic loses its permission to be written until no message has come for 40 s and each group has confirmed all.
Brokers still take messages of such a topic; producers ask for its route every 30 s and refuse to send from then on. An
error or Ctrl-C gives the permission back; after a kill `rocketlake topic alter TOPIC --perm rw` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.groups import ClusterGroups
from rocketlake.base.clock import SystemClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import is_own_group, is_system_group, keeps_first_offsets
from rocketlake.model.pop import RETRY_MARKS, pop_retry_topic
from rocketlake.model.topic import Perm, TopicConfig
from rocketlake.protocol.bodies.stats import GroupOffsets, TopicOffsets

__all__ = ["Draining", "drained"]

_LOOK_SECONDS = 0.5
_QUIET_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class Draining:
    """How far a topic is emptied. `behind`: group -> messages that it has not confirmed."""

    quiet_seconds: float
    behind: Mapping[str, int]
    quiet_seconds_wanted: float = _QUIET_SECONDS


async def drained(
    cluster: Cluster, topic: str, settings: Mapping[str, TopicConfig], tell: Callable[[Draining], object]
) -> None:
    """End the sends to the topic, and return when every group has read it. The caller lets it be written again.

    `tell` is called at the beginning, and each time when the groups that are behind have changed.
    `settings`: what the topic has now, by broker; it has them again after an error or Ctrl-C.
    """
    closed = {broker: replace(config, perm=config.perm & ~Perm.WRITE) for broker, config in settings.items()}
    try:
        await cluster.put_topic(closed)  # of several brokers some may have done it when another one refuses
        await _quiet_and_read(cluster, topic, tell)
    except BaseException as error:
        try:
            await cluster.put_topic(settings)
        except RocketLakeError as problem:
            raise RocketLakeError(
                f"topic {topic!r} may take no messages now, its permission could not be given back: {problem.what}",
                where=problem.where,
                hint=f"mend that, then `rocketlake topic alter {topic} --perm rw`",
            ) from error
        raise


async def _quiet_and_read(cluster: Cluster, topic: str, tell: Callable[[Draining], object]) -> None:
    clock = SystemClock()
    told: dict[str, int] | None = None
    since, ends = clock.monotonic(), await cluster.queues(topic)
    while True:
        behind = await _behind(cluster, topic, ends)
        now, found = clock.monotonic(), await cluster.queues(topic)
        if found != ends:
            since, ends = now, found
        elif now - since >= _QUIET_SECONDS and not behind:
            return
        if behind != told:
            tell(Draining(now - since, behind))
            told = behind
        await asyncio.sleep(_LOOK_SECONDS)


async def _behind(cluster: Cluster, topic: str, ends: Mapping[MessageQueue, TopicOffsets]) -> dict[str, int]:
    """Group -> messages of the topic that it has not confirmed; only groups that have some.

    A group that is connected and has confirmed nothing in a queue yet has all its messages before it. Its consumers say
    where they are within seconds, also of a queue that they read from its end. What was popped and is not acknowledged
    is not confirmed, though the offset is behind it.
    """
    groups, behind = ClusterGroups(cluster), {}
    connected = await groups.readers(topic)
    for name in await groups.all():
        if is_system_group(name) or is_own_group(name) or keeps_first_offsets(name):
            continue
        committed = await groups.committed(name, ends, zero_if_young=False)
        if name not in connected and all(offset < 0 for offset in committed.values()):
            continue
        lag = sum(
            each.max_offset - max(committed[queue], each.min_offset)
            for queue, each in ends.items()
            if name in connected or committed[queue] >= 0
        )
        lag += _in_flight(topic, name, await groups.offsets(name))
        if lag > 0:
            behind[name] = lag
    return behind


def _in_flight(topic: str, group: str, offsets: Mapping[MessageQueue, GroupOffsets]) -> int:
    """Messages of the topic that the group has popped: in flight, or on their way to come again."""
    again = {pop_retry_topic(topic, group, mark) for mark in RETRY_MARKS}
    return sum(
        each.lag if queue.topic in again else (each.pop_in_flight or 0) + (each.pop_overdue or 0)
        for queue, each in offsets.items()
        if queue.topic == topic or queue.topic in again
    )
