"""The questions of `check` to a cluster: which topics exist, and at which offsets their newest messages are.

Owns        these questions, and the offsets of a sample as options of the source.
Must not know   Spark.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rocketlake.base.errors import UsageError
from rocketlake.client.wire import ClientConfig, NameServers, net_client, offset_calls, subscribe_view
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.client import NetClient

__all__ = ["TopicSample", "offsets_option", "sample_topics", "topics_like"]

_TIMEOUT_MS = 3000


@dataclass(frozen=True)
class TopicSample:
    """A topic's queues as (oldest offset, where a sample begins, next offset); None: no broker knows the topic."""

    topic: str
    queues: dict[MessageQueue, tuple[int, int, int]] | None

    @property
    def messages(self) -> int:
        """Number of messages in the topic."""
        return sum(end - low for low, _, end in (self.queues or {}).values())


def sample_topics(config: ClientConfig, topics: Sequence[str], rows: int) -> list[TopicSample]:
    """Each topic with offsets of its newest messages, `rows` shared by its queues.

    Raises LinkError without an answer.
    """
    return asyncio.run(_sample(config, topics, rows))


def topics_like(config: ClientConfig, pattern: str) -> list[str]:
    """Topics whose whole name matches."""
    try:
        re.compile(pattern)
    except re.error as error:
        hint = "a regular expression: orders-.*"
        raise UsageError(f"option 'subscribePattern' is '{pattern}': {error}", hint=hint) from None
    return asyncio.run(_list(config, pattern))


def offsets_option(samples: list[TopicSample], place: int) -> str:
    """startingOffsets (place 1) or endingOffsets (place 2) of these samples."""
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for sample in samples:
        for queue, offsets in sorted((sample.queues or {}).items()):
            nested.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[place]
    return json.dumps(nested)


async def _list(config: ClientConfig, pattern: str) -> list[str]:
    net = net_client(config)
    try:
        servers = NameServers(net, config.name_servers, _TIMEOUT_MS)
        return [name for name in await servers.topics() if re.fullmatch(pattern, name)]
    finally:
        await net.close()


async def _sample(config: ClientConfig, topics: Sequence[str], rows: int) -> list[TopicSample]:
    net = net_client(config)
    try:
        servers = NameServers(net, config.name_servers, _TIMEOUT_MS)
        return [await _topic(net, servers, topic, rows) for topic in topics]
    finally:
        await net.close()


async def _topic(net: NetClient, servers: NameServers, topic: str, rows: int) -> TopicSample:
    route = await servers.route(topic)
    if route is None:
        return TopicSample(topic, None)
    masters = {broker.name: broker.master for broker in route.brokers}
    queues = [queue for queue in subscribe_view(topic, route) if masters.get(queue.broker_name)]
    share = -(-rows // max(1, len(queues)))
    bounds = await asyncio.gather(*(_bounds(net, masters[queue.broker_name] or "", queue, share) for queue in queues))
    return TopicSample(topic, dict(zip(queues, bounds, strict=True)))


async def _bounds(net: NetClient, address: str, queue: MessageQueue, rows: int) -> tuple[int, int, int]:
    low = max(0, await offset_calls.min_offset(net, address, queue, _TIMEOUT_MS))
    end = await offset_calls.max_offset(net, address, queue, _TIMEOUT_MS)
    return low, max(low, end - rows), end
