"""The message that a send brings, as the intake takes it.

Owns        the queue it goes to, the properties the broker adds, the check of a compressed body.
Must not know   requests, what becomes of the message.

Departure from RocketMQ 5.3: a body in another compressed form than its flag says is refused, and one in no such form
is stored without the mark. Apache stores both as they came, and its consumers drop them together with the messages
behind them in an answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cached_property

from rocketlake.base.errors import RemoteError
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec import property_text
from rocketlake.codec.compression import PLAIN, form_at_start
from rocketlake.codec.host import encode_host
from rocketlake.codec.record_layout import RecordError
from rocketlake.model import property_names as names
from rocketlake.model import sys_flag
from rocketlake.model.topic import TopicConfig, TopicFilterType
from rocketlake.protocol.headers.send import SendHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage

__all__ = ["Incoming", "choose_queue", "place_by_priority", "stored_flag"]

_PRIORITY_MAX, _DIGITS_MAX = 2**31 - 1, 10
_OTHER_KINDS = names.TIMERS | {names.DELAY, names.SHARDING_KEY}


class Incoming:
    """Makes messages for the intake from what producers send."""

    def __init__(self, config: LiveConfig, topics: TopicTable, store_address: Callable[[], tuple[str, int]]) -> None:
        """`store_address`: (IP, port) under which clients find this broker, known when the first message comes."""
        self._config = config
        self._topics = topics
        self._store_address = store_address

    @cached_property
    def store_host(self) -> bytes:
        """This broker's address as records carry it."""
        return encode_host(*self._store_address())

    def topic(self, name: str) -> TopicConfig:
        """The topic as it is now. RemoteError if it was deleted while the send waited."""
        topic = self._topics.get(name)
        if topic is None:
            raise RemoteError(
                f"topic[{name}] was deleted before the message was stored", code=ResponseCode.TOPIC_NOT_EXIST
            )
        return topic

    def read(
        self, header: SendHeader, body: bytes, remote: tuple[str, int], topic: TopicConfig
    ) -> tuple[PutMessage, dict[str, str]]:
        """The message and its properties, as the producer wrote them. RemoteError if the topic has no such queue."""
        message = PutMessage(
            header.topic,
            choose_queue(header.queue_id, topic),
            body,
            flag=header.flag,
            sys_flag=_without_commit(header.sys_flag),
            born_ms=header.born_timestamp,
            born_host=encode_host(*remote),
            store_host=self.store_host,
            reconsume_times=max(0, header.reconsume_times or 0),
        )
        if topic.filter_type is TopicFilterType.MULTI_TAG:
            message.sys_flag |= sys_flag.MULTI_TAGS
        return message, property_text.decode((header.properties or "").encode())

    def add_properties(self, properties: dict[str, str]) -> None:
        """Add what the broker says of each message, in place."""
        config = self._config.now
        properties.pop(names.POP_CK, None)
        properties[names.MESSAGE_REGION] = config.region_id
        properties[names.CLUSTER] = config.cluster_name
        properties[names.TRACE_SWITCH] = "true" if config.trace_on else "false"


def _without_commit(flag: int) -> int:
    """The system flag of a send. Only a commit makes a committed message: a start believes that its transaction ended.

    The mark of a half message is an order of its sender, and that of a rollback is refused (transaction/half.py).
    """
    is_commit = sys_flag.transaction_type(flag) == sys_flag.TRANSACTION_COMMIT
    return flag & ~sys_flag.TRANSACTION_MASK if is_commit else flag


def choose_queue(queue_id: int, topic: TopicConfig) -> int:
    """The queue that was asked for; any one if none was. RemoteError if the topic does not have it."""
    if queue_id >= topic.queues:
        raise RemoteError(
            f"request queueId[{queue_id}] is illegal, topic {topic.name} has {topic.write_queues} write queues",
            code=ResponseCode.INVALID_PARAMETER,
        )
    if queue_id >= 0:
        return queue_id
    if topic.write_queues == 0:
        raise RemoteError(f"topic {topic.name} has no write queue", code=ResponseCode.INVALID_PARAMETER)
    return random.randrange(topic.write_queues)


def place_by_priority(message: PutMessage, properties: dict[str, str], topic: TopicConfig) -> None:
    """The queue of a message with a priority, in place: the queue of that number, or the last one.

    A half, delayed or ordered message has none (RocketMQ's order of types): its mark is taken away.
    """
    text = properties.get(names.PRIORITY)
    if text is None:
        return
    is_half = properties.get(names.TRANSACTION_PREPARED, "").lower() == "true"
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX and int(text) <= _PRIORITY_MAX
    if is_half or not is_number or not _OTHER_KINDS.isdisjoint(properties):
        del properties[names.PRIORITY]
    elif topic.write_queues > 0:
        message.queue_id = min(int(text), topic.write_queues - 1)


def stored_flag(body: bytes | bytearray | memoryview, flag: int) -> int:
    """The system flag with which a body is stored: without the mark of a compression that it does not have.

    RemoteError for a body that no consumer could unpack, as far as its first bytes tell.
    """
    if not flag & sys_flag.COMPRESSED:
        return flag
    try:
        form = form_at_start(body, flag)
    except RecordError as error:
        hint = "compress the body as the flag says, or leave the flag away"
        raise RemoteError(str(error), code=ResponseCode.MESSAGE_ILLEGAL, hint=hint) from None
    return flag & ~(sys_flag.COMPRESSED | sys_flag.COMPRESSION_MASK) if form == PLAIN else flag
