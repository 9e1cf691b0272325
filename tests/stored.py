"""All that a topic holds, read over the network."""

from __future__ import annotations

import asyncio

from rocketlake import NoRoute, PullConsumer
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue

__all__ = ["all_stored", "known_queues"]


async def known_queues(consumer: PullConsumer, topic: str) -> list[MessageQueue]:
    """The queues of a topic that may be new, as soon as the broker has told the name server of it."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await consumer.fetch_queues(topic)
            except NoRoute:
                await asyncio.sleep(0.1)


async def all_stored(namesrv: str, topic: str) -> list[StoredMessage]:
    """The messages of all its queues, up to where each ends now; read in the name of no group.

    The ends say that no more will come: an empty poll says only that a broker is slow.
    """
    found: list[StoredMessage] = []
    async with PullConsumer("reader", namesrv=namesrv, auto_commit=False) as consumer, asyncio.timeout(60):
        queues = await known_queues(consumer, topic)
        consumer.assign(queues)
        await consumer.seek_to_begin()
        ends = [(queue, await consumer.end_offset(queue)) for queue in queues]
        while any([await consumer.position(queue) < end for queue, end in ends]):
            found += await consumer.poll(timeout_ms=300, max_messages=1000)
    return found
