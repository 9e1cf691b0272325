"""CONSUMER_SEND_MSG_BACK: a consumer could not handle a message and asks for it again later.

Owns        the choice between retry and dead letters, the delay of the next try, the copy that is stored.
Must not know   how a copy is delayed or stored.

Rule (RocketMQ's AbstractSendMessageProcessor): the copy goes to %RETRY%group behind delay level 3 + tries so far; when
the tries are used up, or the consumer gives up (level below 0), it goes to %DLQ%group at once. So does a message whose
properties leave no room for the marks of a retry; Apache refuses to take it back, and its queue stands still.

Departure: the retry policy of a group counts for every consumer that leaves the delay to the broker (level 0); Apache's
broker follows it for pop consumers only. It needs the timer; without it the delay levels count.

Departure: the answer waits until the copy is as safe as the role of this broker asks, whatever the message says. After
the answer the consumer is done with the message, so the copy is all that is left of it. Apache answers at once, and
loses it with the master or with the power.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from rocketlake.auth.action import Action, on_topic
from rocketlake.base.errors import RemoteError, one_line
from rocketlake.base.logs import get_logger
from rocketlake.broker.delay.parking import TIMER_NAMES, TimerRules
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.rights.send import SendRights
from rocketlake.broker.sends.copy_room import fit_dead_letter, has_retry_room
from rocketlake.broker.stats import BrokerStats
from rocketlake.broker.stored_message import copy_message, read_message
from rocketlake.broker.topics.auto_create import AutoCreate
from rocketlake.codec.host import encode_host
from rocketlake.model import property_names as names
from rocketlake.model.group import GroupConfig, RetryPolicy
from rocketlake.model.message import StoredMessage
from rocketlake.model.names import dead_letter_topic, retry_topic
from rocketlake.model.positions import PhysicalOffset
from rocketlake.model.topic import TOPIC_SYS_FLAG_UNIT_SUBSCRIPTION, TopicConfig
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.send import SendBackHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutStatus

__all__ = ["SendBack"]

_log = get_logger(__name__)

_FIRST_RETRY_LEVEL = 3
_NO_POLICY = RetryPolicy()
_TIMES_OVER = (*TIMER_NAMES, names.TIMER_OUT_MS)
"""The message was delivered. A timer would take one with TIMER_OUT_MS for its own copy, and not delay it again."""
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
        timer_rules: TimerRules,
        store_address: Callable[[], tuple[str, int]],
        gate: AccessGate,
    ) -> None:
        """`gate`: asked about the topic of the message, which the request names by its place only."""
        self._gate = gate
        self._store = store
        self._intake = intake
        self._auto_create = auto_create
        self._rights = rights
        self._stats = stats
        self._timer_rules = timer_rules
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
        self._gate.check_more(request, on_topic(original.topic, Action.SUB))
        retries_max = self._rights.retries_max(group, header.max_reconsume_times, request.command.version)
        is_dead = header.delay_level < 0 or original.reconsume_times >= retries_max
        properties = _marked(original)
        came_from = properties[names.RETRY_TOPIC]
        if header.last_error:
            properties[names.LAST_ERROR] = one_line(header.last_error)
        self._delay(properties, header.delay_level, original.reconsume_times, group.retry_policy)
        if not is_dead and not _has_room(properties, topic.name):
            _log.warning(
                "message %s cannot be tried again by group %s, its properties leave no room for that: it becomes a dead"
                " letter",
                original.message_id, group.name,
            )  # fmt: skip
            is_dead = True
        target, queue_id = topic.name, random.randrange(_queues_read(group, topic))
        if is_dead:
            target, queue_id = self._auto_create.for_group(dead_letter_topic(group.name), 1).name, 0
            properties.pop(names.TIMER_DELAY_MS, None)
            properties[names.DELAY] = "0"
            fit_dead_letter(properties)
        message = self._copy(original, target, queue_id)

        def count() -> None:
            self._stats.count_send_back(group.name, came_from, is_dead=is_dead)

        return self._auto_create.once_saved(
            target, request, lambda request: self._put(request, message, properties, count)
        )

    def _delay(self, properties: dict[str, str], level: int, tries: int, policy: RetryPolicy) -> None:
        """Say when the next try is: after the level that the consumer asks for, else as the group's policy says."""
        rules = self._timer_rules
        if level != 0 or policy == _NO_POLICY or not rules.is_enabled:
            properties[names.DELAY] = str(level or _FIRST_RETRY_LEVEL + tries)
        else:
            properties.pop(names.DELAY, None)
            properties[names.TIMER_DELAY_MS] = str(min(policy.delay_ms(tries), rules.delay_ms_max))

    def _look_up(self, offset: int) -> StoredMessage:
        message = read_message(self._store, PhysicalOffset(offset))
        if message is not None:
            return message
        raise RemoteError(f"look message by offset failed, {offset}", code=ResponseCode.SYSTEM_ERROR)

    def _copy(self, original: StoredMessage, topic: str, queue_id: int) -> PutMessage:
        message = copy_message(original, topic, queue_id)
        message.store_host = encode_host(*self._store_address())
        message.reconsume_times += 1
        return message

    def _put(
        self, request: Request, message: PutMessage, properties: dict[str, str], count: Callable[[], None]
    ) -> Reply | Held:
        result = self._intake.put(message, properties)

        def answer(status: PutStatus) -> None:
            if status is PutStatus.OK:
                count()
                request.answer(Reply())
            else:
                request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=f"{status.name} {result.reason}".rstrip()))

        if result.status.is_stored:
            self._intake.when_durable(result, _WAIT, answer)
        else:
            answer(result.status)
        return HELD


def _marked(original: StoredMessage) -> dict[str, str]:
    """The properties of the message, and the marks of a copy."""
    properties = dict(original.properties)
    for name in (names.PRODUCER_SEQUENCE, names.LAST_ERROR, *_TIMES_OVER):
        properties.pop(name, None)
    properties.setdefault(names.RETRY_TOPIC, original.topic)
    properties[names.WAIT] = "false"
    if not properties.get(names.ORIGIN_MESSAGE_ID):
        properties[names.ORIGIN_MESSAGE_ID] = original.offset_message_id
    return properties


def _has_room(properties: dict[str, str], retry_topic: str) -> bool:
    """True if the copy can wait for another try, if need be without the last error."""
    if has_retry_room(properties, retry_topic):
        return True
    return properties.pop(names.LAST_ERROR, None) is not None and has_retry_room(properties, retry_topic)


def _queues_read(group: GroupConfig, topic: TopicConfig) -> int:
    """The number of retry queues that consumers read: the group may ask for more than its retry topic has."""
    return max(1, min(group.retry_queues, topic.read_queues))
