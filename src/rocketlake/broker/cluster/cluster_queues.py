"""The readable queues of a topic on all brokers of the cluster.

Owns        which name server is asked, the result while no name server answers.
Must not know   how the queues are shared out.
"""

from __future__ import annotations

from collections.abc import Generator

from rocketlake.base.errors import LinkError
from rocketlake.base.slices import in_slices
from rocketlake.broker.cluster.outbound import Outbound
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.route import QueueInfo
from rocketlake.model.topic import Perm

__all__ = ["ClusterQueues"]


class ClusterQueues:
    """Asks name servers; a broker without name servers is its own cluster."""

    def __init__(self, config: LiveConfig, topics: TopicTable, outbound: Outbound) -> None:
        self._config = config
        self._topics = topics
        self._outbound = outbound

    async def find(self, topic: str) -> list[MessageQueue] | None:
        """Readable queues, sorted; None if the topic is unknown. LinkError if no name server answers."""
        problem: LinkError | None = None
        for namesrv in self._config.now.namesrv_addresses:
            try:
                route = await self._outbound.route(namesrv, topic)
            except LinkError as error:
                problem = error
                continue
            return None if route is None else await in_slices(_readable(topic, route.queues))
        if problem is not None:
            raise problem
        own = self._topics.get(topic)
        if own is None:
            return None
        queues = [QueueInfo(self._config.now.broker_name, own.read_queues, own.write_queues, own.perm)]
        return await in_slices(_readable(topic, queues))


def _readable(topic: str, queues: list[QueueInfo]) -> Generator[None, None, list[MessageQueue]]:
    found = []
    for queue in sorted(queues, key=lambda queue: queue.broker_name):
        for queue_id in range(queue.read_queues if Perm.is_readable(queue.perm) else 0):
            found.append(MessageQueue(topic, queue.broker_name, queue_id))
            yield
    return found
