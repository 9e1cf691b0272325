"""The SinkCluster seam over the network.

Owns        the send request, the choice of the master.
Must not know   rows, tries, how clients are kept (spark/cluster.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from rocketlake.client.wire import ClientInstance, NoRoute, Outgoing, Sender
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.command import Command
from rocketlake.spark.cluster import cluster_client
from rocketlake.spark.sink.options import SinkOptions

__all__ = ["ClusterSends", "connect"]

PRODUCER_GROUP = "ROCKETLAKE_SPARK_SINK"
T = TypeVar("T")


def connect(options: SinkOptions) -> ClusterSends:
    """The cluster of these options, over the links this process already has."""
    return ClusterSends(*cluster_client(options.namesrv, options.tls_file, options.credentials_file))


class ClusterSends:
    """SinkCluster (see sending.py) over a ClientInstance that lives on a loop of another thread."""

    def __init__(self, client: ClientInstance, loop: asyncio.AbstractEventLoop) -> None:
        self.client = client
        self._loop = loop
        self._clock = client.clock
        self._sender = Sender(PRODUCER_GROUP)

    def run_soon(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Start this on the loop's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run on the loop's thread and wait."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def queues(self, topic: str, *, must_exist: bool) -> tuple[MessageQueue, ...]:
        """Queues to write to, in order; for a topic that is not made yet, those that it will get."""
        client = self.client
        queues = await client.queues_to_publish(
            topic, template=self._sender.template_topic, new_queues=self._sender.new_topic_queues
        )
        if must_exist and client.routes.to_read(topic) is None and not await client.refresh_route(topic):
            raise NoRoute(topic, client.name_servers.addresses)
        return tuple(sorted((client.routes.to_publish(topic) or queues) if must_exist else queues))

    async def send(self, queue: MessageQueue, outgoing: Outgoing, timeout_ms: int) -> Command:
        """One try at the broker's master."""
        client = self.client
        address = client.routes.master(queue.broker_name) or await client.master(queue.broker_name, queue.topic)
        command = self._sender.command(outgoing, queue, self._clock.now_ms())
        return await client.invoke_at_master(address, queue, command, timeout_ms)

    async def pause(self, queue: MessageQueue, seconds: float) -> None:
        """Wait; not so long if the queue's broker has a new master before."""
        await self.client.after_break(queue, seconds)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._clock.sleep(seconds)

    def monotonic(self) -> float:
        """Seconds."""
        return self._clock.monotonic()
