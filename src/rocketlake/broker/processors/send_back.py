"""CONSUMER_SEND_MSG_BACK: a consumer could not handle a message and asks for it again later.

Owns        the choice between retry and dead letters, the delay of the next try, the copy that is stored.
Must not know   how a copy is delayed or stored.

Rule (RocketMQ's AbstractSendMessageProcessor): the copy goes to %RETRY%group behind delay level 3 + tries so far; when
the tries are used up, or the consumer gives up (level below 0), it goes to %DLQ%group at once.

Departure: the answer waits until the copy is as safe as the role of this broker asks, whatever the message says. After
the answer the consumer is done with the message, so the copy is all that is left of it. Apache answers at once, and
loses it with the master or with the power.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from rocketlake.base.errors import RemoteError
from rocketlake.broker.delay.parking import TIMER_NAMES
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.rights.send import SendRights
from rocketlake.broker.stats import BrokerStats
from rocketlake.broker.stored_message import copy_message, read_message
from rocketlake.broker.topics.auto_create import AutoCreate
from rocketlake.codec.host import encode_host
from rocketlake.model import property_names as names
from rocketlake.model.group import GroupConfig
from rocketlake.model.message import StoredMessage
from rocketlake.model.names import dead_letter_topic, retry_topic
from rocketlake.model.positions import PhysicalOffset
from rocketlake.model.topic import TOPIC_SYS_FLAG_UNIT_SUBSCRIPTION, TopicConfig
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.send import SendBackHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutStatus

__all__ = ["SendBack"]

_FIRST_RETRY_LEVEL = 3
_WAIT: dict[str, str] = {}
"""In place of the copy's own properties, which have Apache's WAIT=false."""


class SendBack:
    """Stores the copy for the next try."""

    def __init__(
        self,
        *,
        store: MessageStore,
        intake: Intake,
        auto_create: AutoCreate,
        rights: SendRights,
        stats: BrokerStats,
        store_address: Callable[[], tuple[str, int]],
    ) -> None:
        self._store = store
        self._intake = intake
        self._auto_create = auto_create
        self._rights = rights
        self._stats = stats
        self._store_address = store_address

    def send_back(self, request: Request) -> Reply | Held:
        """Serve the request."""
        header = request.header(SendBackHeader)
        group = self._rights.find_group(header.group)
        self._rights.check_back()
        if group.retry_queues <= 0:
            return Reply()
        flag = TOPIC_SYS_FLAG_UNIT_SUBSCRIPTION if header.unit_mode else 0
        topic = self._auto_create.for_group(retry_topic(group.name), group.retry_queues, flag)
        self._rights.check_back(topic)
        original = self._look_up(header.offset)
        target, queue_id, is_dead = topic.name, random.randrange(_queues_read(group, topic)), False
        retries_max = self._rights.retries_max(group, header.max_reconsume_times, request.command.version)
        if header.delay_level < 0 or original.reconsume_times >= retries_max:
            target, queue_id, is_dead = self._auto_create.for_group(dead_letter_topic(group.name), 1).name, 0, True
        message, properties = self._copy(original, target, queue_id)
        level = header.delay_level or _FIRST_RETRY_LEVEL + original.reconsume_times
        properties[names.DELAY] = "0" if is_dead else str(level)

        return self._auto_create.once_saved(
            target, request, lambda request: self._put(request, message, properties, group.name, is_dead)
        )

    def _look_up(self, offset: int) -> StoredMessage:
        message = read_message(self._store, PhysicalOffset(offset))
        if message is not None:
            return message
        raise RemoteError(f"look message by offset failed, {offset}", code=ResponseCode.SYSTEM_ERROR)

    def _copy(self, original: StoredMessage, topic: str, queue_id: int) -> tuple[PutMessage, dict[str, str]]:
        properties = dict(original.properties)
        for name in (names.PRODUCER_SEQUENCE, *TIMER_NAMES):  # the message was delivered: its time is over
            properties.pop(name, None)
        properties.setdefault(names.RETRY_TOPIC, original.topic)
        properties[names.WAIT] = "false"
        if not properties.get(names.ORIGIN_MESSAGE_ID):
            properties[names.ORIGIN_MESSAGE_ID] = original.offset_message_id
        message = copy_message(original, topic, queue_id)
        message.store_host = encode_host(*self._store_address())
        message.reconsume_times += 1
        return message, properties

    def _put(
        self, request: Request, message: PutMessage, properties: dict[str, str], group: str, is_dead: bool
    ) -> Reply | Held:
        result = self._intake.put(message, properties)

        def answer(status: PutStatus) -> None:
            if status is PutStatus.OK:
                self._stats.count_send_back(group, properties[names.RETRY_TOPIC], is_dead=is_dead)
                request.answer(Reply())
            else:
                request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=f"{status.name} {result.reason}".rstrip()))

        if result.status.is_stored:
            self._intake.when_durable(result, _WAIT, answer)
        else:
            answer(result.status)
        return HELD


def _queues_read(group: GroupConfig, topic: TopicConfig) -> int:
    """The number of retry queues that consumers read: the group may ask for more than its retry topic has."""
    return max(1, min(group.retry_queues, topic.read_queues))
