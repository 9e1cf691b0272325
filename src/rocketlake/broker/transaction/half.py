"""Half messages: their form, and their copies.

Owns        the rewrite of a message into the half topic and out of it again, reading half messages.
Must not know   requests, when a producer is asked.

Rule (RocketMQ's TransactionalMessageBridge, EndTransactionProcessor): a half message waits in queue 0 of
RMQ_SYS_TRANS_HALF_TOPIC, its target in REAL_TOPIC and REAL_QID, without transaction bits. The committed copy has the
commit bits and the half message's place in the log, and keeps all properties, TRAN_MSG too.
"""

from __future__ import annotations

from rocketlake.base.errors import RemoteError
from rocketlake.broker.delay.parking import TIMER_NAMES, delay_level, real_target, timer_property
from rocketlake.broker.stored_message import copy_message, read_message
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec import property_text
from rocketlake.codec.record_layout import PROPERTIES_BYTES_MAX
from rocketlake.model import property_names as names
from rocketlake.model import sys_flag
from rocketlake.model.message import StoredMessage
from rocketlake.model.names import is_sendable_topic
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.topic import HALF_TOPIC, TRANSACTION_CHECK_MAX_TOPIC
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage

__all__ = [
    "HALF_QUEUE",
    "committed_copy",
    "given_up_copy",
    "immune_ms",
    "is_half",
    "is_orphan",
    "park_half",
    "prepared_offset",
    "producer_group",
    "put_back_copy",
    "read_half",
    "target",
    "times_checked",
]

HALF_QUEUE = 0
"""The only queue of the half topic and of the op topic."""


def is_half(message: PutMessage, properties: dict[str, str]) -> bool:
    """True if the sender marks it as a half message. RemoteError for the mark of a rollback."""
    if properties.get(names.TRANSACTION_PREPARED, "").lower() == "true":
        return True
    kind = sys_flag.transaction_type(message.sys_flag)
    if kind == sys_flag.TRANSACTION_ROLLBACK:
        raise RemoteError("a message with the mark of a rollback", code=ResponseCode.MESSAGE_ILLEGAL)
    return kind == sys_flag.TRANSACTION_PREPARED


def park_half(message: PutMessage, properties: dict[str, str], group: str) -> None:
    """Turn a message of the producer `group` into a half message, in place. RemoteError if it asks for a delay."""
    delay = names.DELAY if delay_level(properties) > 0 else timer_property(properties)
    if delay is not None:
        raise RemoteError(
            "a message of a transaction cannot be delayed",
            code=ResponseCode.MESSAGE_ILLEGAL,
            hint=f"leave out the property {delay}",
        )
    # Properties of an earlier transaction, when a consumer passes a message on with all its properties.
    for name in (names.TRANSACTION_CHECK_TIMES, names.TRANSACTION_PREPARED_QUEUE_OFFSET):
        properties.pop(name, None)
    properties[names.TRANSACTION_PREPARED] = "true"
    properties.setdefault(names.PRODUCER_GROUP, group)
    unique_key = properties.get(names.UNIQUE_KEY)
    if unique_key:
        properties[names.TRANSACTION_ID] = unique_key
    properties[names.REAL_TOPIC] = message.topic
    properties[names.REAL_QUEUE_ID] = str(message.queue_id)
    message.sys_flag &= ~sys_flag.TRANSACTION_MASK
    message.topic = HALF_TOPIC
    message.queue_id = HALF_QUEUE


def read_half(store: MessageStore, physical_offset: PhysicalOffset, *, given_up: bool = False) -> StoredMessage | None:
    """The half message at a place in the log; None if no half message lies there, or its target may not take it.

    `given_up`: accept one of TRANS_CHECK_MAX_TIME_TOPIC, too. The place may come from a client and is checked.
    """
    half = read_message(store, physical_offset)
    if half is None:
        return None
    if half.topic != HALF_TOPIC and not (given_up and half.topic == TRANSACTION_CHECK_MAX_TOPIC):
        return None
    meant = real_target(half.properties)
    return half if meant is not None and is_sendable_topic(meant[0]) else None


def committed_copy(half: StoredMessage, name: QueueOffset | None, queue_id: int) -> tuple[PutMessage, dict[str, str]]:
    """The message that consumers get, and its properties.

    Without timer properties: Apache's broker takes a half message with them if its time is over, and no other is one.
    `name`: the queue offset that names its transaction, if it was put back.
    """
    topic, _ = target(half)
    message = copy_message(half, topic, queue_id)
    message.sys_flag = half.sys_flag & ~sys_flag.TRANSACTION_MASK | sys_flag.TRANSACTION_COMMIT
    message.prepared_transaction_offset = half.physical_offset
    properties = {key: value for key, value in half.properties.items() if key not in TIMER_NAMES}
    if name is not None:
        properties[names.TRANSACTION_PREPARED_QUEUE_OFFSET] = str(name)
    return message, properties


def put_back_copy(half: StoredMessage, name: QueueOffset | None, *, checked: int | None) -> PutMessage:
    """The half message once more, for the end of the half topic: the progress must get past its old place.

    `name`: the queue offset that names its transaction; None: the offset of the copy. `checked`: how often its producer
    was asked; None: as before.
    """
    properties = dict(half.properties)
    if name is not None:
        properties[names.TRANSACTION_PREPARED_QUEUE_OFFSET] = str(name)
    if checked is not None:
        properties[names.TRANSACTION_CHECK_TIMES] = str(checked)
    message = copy_message(half, HALF_TOPIC, HALF_QUEUE)
    message.properties = property_text.encode_again(properties)
    return message


def given_up_copy(half: StoredMessage, name: QueueOffset) -> PutMessage:
    """The half message for TRANS_CHECK_MAX_TIME_TOPIC. It goes without its name if there is no room for that."""
    message = copy_message(half, TRANSACTION_CHECK_MAX_TOPIC, 0)
    named = property_text.encode_again(half.properties | {names.TRANSACTION_PREPARED_QUEUE_OFFSET: str(name)})
    is_named = len(named) <= PROPERTIES_BYTES_MAX
    message.properties = named if is_named else property_text.encode_again(half.properties)
    return message


def is_orphan(half: StoredMessage, store: MessageStore, topics: TopicTable) -> bool:
    """True if its topic was deleted since. A topic that was made anew with this name is another one."""
    topic, _ = target(half)
    return topic not in topics or store.deletions.is_dead(topic, half.physical_offset)


def target(half: StoredMessage) -> tuple[str, int]:
    """The topic and the queue that the message is meant for."""
    return real_target(half.properties) or ("", 0)


def producer_group(half: StoredMessage) -> str:
    """The group whose producers can tell the end."""
    return half.properties.get(names.PRODUCER_GROUP, "")


def times_checked(half: StoredMessage) -> int:
    """How often its producer was asked about it."""
    return _number(half.properties.get(names.TRANSACTION_CHECK_TIMES), 0)


def prepared_offset(half: StoredMessage) -> QueueOffset:
    """The queue offset by which its producer knows the message: its own, unless it was put back.

    A copy in the half topic lies behind what it names. Another number is damaged.
    """
    named = _number(half.properties.get(names.TRANSACTION_PREPARED_QUEUE_OFFSET), half.queue_offset)
    if half.topic == HALF_TOPIC and not 0 <= named <= half.queue_offset:
        return half.queue_offset
    return QueueOffset(named)


def immune_ms(half: StoredMessage) -> int | None:
    """How long its producer wants not to be asked; None if the message has no such property, -1 if it is no number."""
    text = half.properties.get(names.CHECK_IMMUNITY_TIME)
    return None if not text else _number(text, -1) * 1000


def _number(text: str | None, default: int) -> int:
    try:
        return default if text is None else int(text)
    except ValueError:
        return default
