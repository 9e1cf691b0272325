"""The store, as administrators read it and clean it up: entries of a queue, expired files.

Owns        what each clean-up request deletes.
Must not know   how files are deleted (store/retention.py), when they are deleted without a request.

Rules (RocketMQ's AdminBrokerProcessor), with one departure: a queue whose messages all expired stays, empty, with its
offsets. Apache destroys it (306): it starts at 0 again, and groups with a higher offset miss the new messages.
"""

from __future__ import annotations

from rocketlake.base.errors import RemoteError
from rocketlake.base.logs import get_logger
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.positions import QueueOffset
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.bodies.heartbeat import SubscriptionEntry
from rocketlake.protocol.bodies.queue_contents import QueueContents, QueueContentsEntry
from rocketlake.protocol.headers.query import QueryConsumeQueueHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore

__all__ = ["AdminStore"]

_log = get_logger(__name__)
_LIGHT = "%LMQ%"
"""Queues of Apache's light topics, which no topic table holds."""
_ENTRIES_MAX = 1000
"""Entries in one answer: the loop builds no more at once."""


class AdminStore:
    """QUERY_CONSUME_QUEUE, DELETE_EXPIRED_COMMITLOG, CLEAN_EXPIRED_CONSUMEQUEUE, CLEAN_UNUSED_TOPIC."""

    def __init__(self, store: MessageStore, topics: TopicTable, consumers: ConsumerTable) -> None:
        self._store = store
        self._topics = topics
        self._consumers = consumers

    def delete_expired(self, request: Request) -> Reply:
        """DELETE_EXPIRED_COMMITLOG: the next rounds take files older than fileReservedTime at any hour."""
        _log.info("%s asks for expired log files to be deleted", request.address)
        self._store.retention.ask()
        self._store.retention.look()
        return Reply()

    def clean_queues(self, request: Request) -> Reply:
        """CLEAN_EXPIRED_CONSUMEQUEUE: queue and index files below the start of the log go now."""
        _log.info("%s asks for expired queue files to be deleted", request.address)
        self._store.retention.look_again()
        return Reply()

    def clean_topics(self, request: Request) -> Reply | Held:
        """CLEAN_UNUSED_TOPIC: the queues of topics that this broker does not have."""
        unused = [name for name in self._store.queues.topics() if self._is_unused(name)]
        _log.warning("%s asks for unused topics to be deleted: %s", request.address, ", ".join(unused) or "none")
        if not unused:
            return Reply()

        def noted(error: Exception | None) -> None:
            remark = "" if error is None else f"deleted, but a crash may bring them back: {error}. Cure: ask again"
            request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=remark) if remark else Reply())

        self._store.delete_topics(unused, noted)
        return HELD

    def _is_unused(self, topic: str) -> bool:
        return topic not in self._topics and not self._topics.is_system(topic) and not topic.startswith(_LIGHT)

    def queue_contents(self, request: Request) -> Reply:
        """QUERY_CONSUME_QUEUE: entries of a queue from an offset on."""
        header = request.header(QueryConsumeQueueHeader)
        topic, queue_id = header.topic, header.queue_id
        if self._store.queues.find(topic, queue_id) is None:
            raise RemoteError(f"{queue_id}@{topic} is not exist!", code=ResponseCode.SYSTEM_ERROR)
        low, high = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        body = QueueContents(max_queue_index=high, min_queue_index=low)
        if header.consumer_group:
            wanted = self._consumers.subscription(header.consumer_group, topic)
            if wanted is None:
                body.filter_data = f"{header.consumer_group}@{topic} is not online!"
            else:
                body.subscription_data = SubscriptionEntry.from_model(wanted)
        if not low <= header.index < high:
            return Reply(remark=f"Index {header.index} of {queue_id}@{topic} is not exist!", body=body.encode())
        count = max(0, min(header.count, _ENTRIES_MAX))
        entries = self._store.queue_entries(topic, queue_id, QueueOffset(header.index), count) if count else []
        body.queue_data = [
            QueueContentsEntry(physic_offset=offset, physic_size=size, tags_code=code) for offset, size, code in entries
        ]
        return Reply(body=body.encode())
