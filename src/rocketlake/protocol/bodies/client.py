"""Bodies about connected clients: members, connections, what a consumer is doing.

Owns        their shape.
Must not know   the tables of clients.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from rocketlake.base.java import json_text
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.bodies.body import Body, Entry, convert, parse_answer, to_json
from rocketlake.protocol.bodies.heartbeat import SubscriptionEntry
from rocketlake.protocol.bodies.java_enum import ConsumeFromWhere, ConsumeResult, ConsumeType, MessageModel
from rocketlake.protocol.bodies.queue_map import encode_object, encode_queue_map, read_queue_map


class GroupMembers(Body, kw_only=True):
    """Answer of GET_CONSUMER_LIST_BY_GROUP: client ids."""

    client_ids: list[str] = field(default_factory=list, name="consumerIdList")


class ConnectionEntry(Entry, kw_only=True):
    """One connected client; `client_addr` is `ip:port`; `subscription_set` is ours: what this consumer
    itself subscribes to, told when the members of its group want different things."""

    client_id: str
    client_addr: str
    language: str | None = None
    version: int = 0
    subscription_set: list[SubscriptionEntry] | None = None


class ConsumerConnection(Body, kw_only=True):
    """Answer of GET_CONSUMER_CONNECTION_LIST."""

    connections: list[ConnectionEntry] = field(default_factory=list, name="connectionSet")
    subscriptions: dict[str, SubscriptionEntry] = field(default_factory=dict, name="subscriptionTable")
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None


class ProducerConnection(Body, kw_only=True):
    """Answer of GET_PRODUCER_CONNECTION_LIST."""

    connections: list[ConnectionEntry] = field(default_factory=list, name="connectionSet")


class ProducerEntry(Entry, kw_only=True):
    """One connected producer; `last_update_timestamp` in ms."""

    client_id: str
    remote_ip: str = field(name="remoteIP")
    language: str | None = None
    version: int = 0
    last_update_timestamp: int = 0


class AllProducers(Body, kw_only=True):
    """Answer of GET_ALL_PRODUCER_INFO: producers by group."""

    groups: dict[str, list[ProducerEntry]] = field(default_factory=dict, name="data")


class ProcessQueueEntry(Entry, kw_only=True):
    """One queue in a consumer's hands; timestamps in ms."""

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mi_b: int = field(default=0, name="cachedMsgSizeInMiB")
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    dropped: bool = field(default=False, name="droped")  # Java spells it so
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


class ConsumeStatus(Entry, kw_only=True):
    """Rates of one topic: times in ms, the rest per second."""

    pull_rt: float = field(default=0.0, name="pullRT")
    pull_tps: float = field(default=0.0, name="pullTPS")
    consume_rt: float = field(default=0.0, name="consumeRT")
    consume_ok_tps: float = field(default=0.0, name="consumeOKTPS")
    consume_failed_tps: float = field(default=0.0, name="consumeFailedTPS")
    consume_failed_msgs: int = 0


STANDING_QUEUES = "rocketlakeStandingQueues"
"""A property of a running consumer of ours: its ordered queues that stand still, and at which message."""


class ConsumerRunningInfo:
    """Answer of GET_CONSUMER_RUNNING_INFO; `properties` holds the settings and the PROP_ names of Java."""

    def __init__(
        self,
        *,
        properties: dict[str, str] | None = None,
        subscriptions: list[SubscriptionEntry] | None = None,
        queues: dict[MessageQueue, ProcessQueueEntry] | None = None,
        status: dict[str, ConsumeStatus] | None = None,
        jstack: str | None = None,
    ) -> None:
        self.properties = properties or {}
        self.subscriptions = subscriptions or []
        self.queues = queues or {}
        self.status = status or {}
        self.jstack = jstack

    def encode(self) -> bytes:
        """JSON text, queues as object keys."""
        members = {
            "mqPopTable": b"{}",
            "mqTable": encode_queue_map({queue: to_json(entry) for queue, entry in self.queues.items()}),
            "properties": json_text.to_text(self.properties),
            "statusTable": json_text.to_text({topic: to_json(status) for topic, status in self.status.items()}),
            "subscriptionSet": json_text.to_text([to_json(entry) for entry in self.subscriptions]),
            "userConsumerInfo": b"{}",
        }
        if self.jstack is not None:
            members["jstack"] = json_text.to_text(self.jstack)
        return encode_object(members)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> ConsumerRunningInfo:
        """Body bytes -> info. Raises BodyError."""
        parsed = parse_answer(data, "ConsumerRunningInfo")
        queues: dict[MessageQueue, Any] = read_queue_map(parsed.get("mqTable"), "mqTable")
        return cls(
            properties=convert(dict[str, str], parsed.get("properties") or {}),
            subscriptions=convert(list[SubscriptionEntry], parsed.get("subscriptionSet") or []),
            queues={queue: convert(ProcessQueueEntry, entry) for queue, entry in queues.items()},
            status=convert(dict[str, ConsumeStatus], parsed.get("statusTable") or {}),
            jstack=parsed.get("jstack"),
        )


class ConsumeDirectlyResult(Body, kw_only=True):
    """Answer of CONSUME_MESSAGE_DIRECTLY; `consume_result` CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT,
    CR_THROW_EXCEPTION or CR_RETURN_NULL; `spent_time_mills` in ms."""

    order: bool = False
    auto_commit: bool = True
    consume_result: ConsumeResult | None = None
    remark: str | None = None
    spent_time_mills: int = 0
