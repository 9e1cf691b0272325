"""The readable queues of a topic on all brokers of the cluster.

Owns        what is done while no name server answers.
Must not know   who shares the queues out.
"""

from __future__ import annotations

from rocketlake.base.errors import LinkError
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.outbound import Outbound
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
        """Queues that may be read; None if the topic is unknown. LinkError if no name server answers."""
        problem: LinkError | None = None
        for namesrv in self._config.now.namesrv_addresses:
            try:
                route = await self._outbound.route(namesrv, topic)
            except LinkError as error:
                problem = error
                continue
            return None if route is None else _readable(topic, route.queues)
        if problem is not None:
            raise problem
        own = self._topics.get(topic)
        if own is None:
            return None
        return _readable(topic, [QueueInfo(self._config.now.broker_name, own.read_queues, own.write_queues, own.perm)])


def _readable(topic: str, queues: list[QueueInfo]) -> list[MessageQueue]:
    return [
        MessageQueue(topic, queue.broker_name, queue_id)
        for queue in queues
        if Perm.is_readable(queue.perm)
        for queue_id in range(queue.read_queues)
    ]
