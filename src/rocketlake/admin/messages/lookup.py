"""Messages found in a cluster: by id, key, place and time.

Owns        the requests that find them, and at which brokers.
Must not know   how messages are shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.groups import ClusterGroups
from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.client.calls.pull import pull, query_messages, view_message
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import TOOLS_CONSUMER_GROUP
from rocketlake.model.subscription import parse_subscription
from rocketlake.net.client import some_at_once

__all__ = ["Lookup"]

_MOST = 64
"""A broker answers no more to one query by key."""
_TIME_MAX = 2**63 - 1


class Lookup:
    """Finds messages. Raises LinkError, RemoteError; RocketLakeError for a topic that does not exist."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def by_id(self, topic: str, message_id: str) -> list[StoredMessage]:
        """Those with this id, which its client or its broker gave; several if it was sent or stored again."""
        return await self._query(topic, message_id, is_id=True) or await self._by_offset_id(topic, message_id)

    async def by_key(self, topic: str, key: str, begin_ms: int = 0, end_ms: int = _TIME_MAX) -> list[StoredMessage]:
        """Those with this key that were stored between two times; each broker gives its last 64."""
        return await self._query(topic, key, begin_ms, end_ms)

    async def at(self, topic: str, broker: str, queue_id: int, offset: int) -> list[StoredMessage]:
        """The one at this place of a queue, if there is one."""
        queue = MessageQueue(topic, broker, queue_id)
        return [each for each in await self._pull(queue, offset, 1) if each.queue_offset == offset]

    async def between(self, topic: str, begin_ms: int, end_ms: int, most: int) -> list[StoredMessage]:
        """The first ones, stored from one time on and before another."""
        ends = await self._cluster.queues(topic)
        starts = await ClusterGroups(self._cluster).at_time(ends, begin_ms)

        async def first_ones(queue: MessageQueue) -> list[StoredMessage]:
            return await self._from(queue, starts[queue], ends[queue].max_offset, end_ms, most)

        return _in_time(message for found in await some_at_once(first_ones, starts) for message in found)[:most]

    async def _from(self, queue: MessageQueue, offset: int, end: int, end_ms: int, most: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        while offset < end and len(found) < most:
            messages = await self._pull(queue, offset, min(32, most - len(found)))
            if not messages:
                break
            found += [message for message in messages if message.store_ms < end_ms]
            if messages[-1].store_ms >= end_ms:
                break
            offset = messages[-1].queue_offset + 1
        return found

    async def _pull(self, queue: MessageQueue, offset: int, most: int) -> list[StoredMessage]:
        masters = await self._cluster.topic_masters(queue.topic)
        if queue.broker_name not in masters:
            names = ", ".join(sorted(masters)) or "none that runs"
            what = f"topic {queue.topic} has no broker {queue.broker_name!r}"
            raise UsageError(what, where=self._cluster.where, hint=f"name one of these: {names}")
        answer = await pull(
            self._cluster.net,
            masters[queue.broker_name],
            queue,
            group=TOOLS_CONSUMER_GROUP,
            offset=offset,
            subscription=parse_subscription(queue.topic, None),
            max_messages=most,
            lite=True,
            around_damage=True,
        )
        return answer.messages

    async def _query(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = _TIME_MAX, *, is_id: bool = False
    ) -> list[StoredMessage]:
        masters = await self._cluster.topic_masters(topic)
        asking = [
            query_messages(
                self._cluster.net, to, topic, key, max_messages=_MOST, begin_ms=begin_ms, end_ms=end_ms, unique=is_id
            )
            for to in masters.values()
        ]
        found = []
        for broker, messages in zip(masters, await asyncio.gather(*asking), strict=True):
            for message in messages:
                # The index of keys knows their hashes only.
                if message.unique_key == key if is_id else key in message.key_list:
                    message.broker_name = broker
                    found.append(message)
        return _in_time(found)

    async def _by_offset_id(self, topic: str, message_id: str) -> list[StoredMessage]:
        """An id that a broker gave. Other ids look alike, so only brokers of the topic are asked."""
        try:
            host, port, offset = parse_offset_message_id(message_id)
        except UsageError:
            return []
        for broker in (await self._cluster.route(topic)).brokers:
            if f"{host}:{port}" in broker.addresses.values():
                try:
                    message = await view_message(self._cluster.net, f"{host}:{port}", offset, topic=topic)
                except RemoteError:
                    return []  # nothing is stored there any more
                message.broker_name = broker.name
                return [message] if message.topic == topic else []
        return []


def _in_time(messages: Iterable[StoredMessage]) -> list[StoredMessage]:
    return sorted(messages, key=lambda message: message.store_ms)
