"""A message on its way to a broker.

Owns        the checks of a sent `v2.Message`, the properties and flags that a broker stores for it.
Must not know   which queue it goes to, requests.

Source: Java SendMessageActivity, GrpcValidator. Two properties that Apache's proxy writes with every message stay away
where they say nothing: PGROUP is written for transactions only (the producer group is the topic), RECONSUME_TIME only
if it is not zero. A control character is refused in every field: RocketMQ's property text has no escape for its
separators.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rocketlake.model import property_names as names
from rocketlake.model.sys_flag import COMPRESSED, TRANSACTION_PREPARED
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.convert.names import topic_of
from rocketlake.proxy.convert.refusal import Refused
from rocketlake.proxy.convert.times import ms_of
from rocketlake.proxy.v2.messages import Code, Encoding, MessageType

__all__ = ["check", "check_lite_topic", "properties_of", "sys_flag_of", "topic_of_all", "type_of", "type_of_properties"]

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_LITE_TOPIC = re.compile(r"[a-zA-Z0-9_-]+")


def topic_of_all(messages: Sequence[Any]) -> str:
    """The topic that all messages of a request name. Refused: ILLEGAL_TOPIC; MESSAGE_CORRUPTED: none, or several."""
    if not messages:
        raise Refused(Code.MESSAGE_CORRUPTED, "there is no message to send")
    first = messages[0].topic
    if any(each.topic != first for each in messages[1:]):
        raise Refused(Code.MESSAGE_CORRUPTED, "the messages name several topics", hint="send one topic a request")
    return topic_of(first)


def check(message: Any, limits: Limits, now_ms: int) -> None:
    """Refused, with the code of the first fault, unless the message may be sent. The topic is `topic_of_all`'s."""
    _check_body(len(message.body), limits.body_bytes_max)
    system = message.system_properties
    _check_sizes(message, limits)
    _check_user_properties(message.user_properties)
    _check_word(system.tag, Code.ILLEGAL_MESSAGE_TAG, "tag")
    if "|" in system.tag:
        raise Refused(Code.ILLEGAL_MESSAGE_TAG, "the tag holds '|'", hint="give one tag")
    for key in system.keys:
        _check_word(key, Code.ILLEGAL_MESSAGE_KEY, "key")
    if not system.message_id or system.message_id.isspace():
        raise Refused(Code.ILLEGAL_MESSAGE_ID, "the message has no id")
    _check_text(system.message_id, Code.ILLEGAL_MESSAGE_ID, "message id")
    _check_word(system.message_group, Code.ILLEGAL_MESSAGE_GROUP, "message group")
    if system.lite_topic:
        check_lite_topic(system.lite_topic, limits)
    _check_text(system.trace_context, Code.BAD_REQUEST, "trace context")
    _check_text(system.born_host, Code.BAD_REQUEST, "born host")
    _check_times(system, limits, now_ms)


def _check_body(size: int, size_max: int) -> None:
    if not size:
        raise Refused(Code.MESSAGE_BODY_EMPTY, "the message has no body")
    if size > size_max > 0:
        raise Refused(Code.MESSAGE_BODY_TOO_LARGE, f"the body has {size} bytes, at most {size_max} are taken")


def _check_sizes(message: Any, limits: Limits) -> None:
    own, system = message.user_properties, message.system_properties
    if len(own) > limits.user_properties_max > 0:
        raise Refused(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the message has {len(own)} user properties, at most {limits.user_properties_max} are taken",
        )
    texts = [*own.keys(), *own.values(), system.tag, *system.keys]
    size = sum(len(each.encode()) for each in texts)
    if size > limits.user_property_bytes_max > 0:
        raise Refused(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties, tag and keys have {size} bytes, at most {limits.user_property_bytes_max} are taken",
        )
    group_size, group_max = len(system.message_group.encode()), limits.message_group_bytes_max
    if group_size > group_max > 0:
        raise Refused(
            Code.ILLEGAL_MESSAGE_GROUP, f"the message group has {group_size} bytes, at most {group_max} are taken"
        )
    id_size = sum(len(each.encode()) for each in (system.message_id, system.trace_context, system.born_host))
    if id_size > limits.id_bytes_max > 0:
        raise Refused(
            Code.ILLEGAL_MESSAGE_ID,
            f"message id, trace context and born host have {id_size} bytes, at most {limits.id_bytes_max} are taken",
        )


def _check_user_properties(properties: Any) -> None:
    for name, value in properties.items():
        if name in names.RESERVED:
            raise Refused(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
                f"the property name {name} is used by RocketMQ itself",
                hint="choose another name",
            )
        _check_text(name, Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "name of a property")
        _check_text(value, Code.ILLEGAL_MESSAGE_PROPERTY_KEY, "value of a property")


def _check_word(text: str, code: Code, what: str) -> None:
    if text.isspace():
        raise Refused(code, f"the {what} is blank")
    _check_text(text, code, what)


def _check_text(text: str, code: Code, what: str) -> None:
    if _CONTROL.search(text):
        raise Refused(code, f"the {what} holds a control character", hint="put such bytes into the body")


def check_lite_topic(name: str, limits: Limits) -> None:
    """Refused: ILLEGAL_LITE_TOPIC."""
    if len(name.encode()) > limits.lite_topic_bytes_max or not _LITE_TOPIC.fullmatch(name):
        raise Refused(
            Code.ILLEGAL_LITE_TOPIC,
            f"the lite topic {name[:80]!r} is no name of one",
            hint=f"use at most {limits.lite_topic_bytes_max} letters, digits, - and _",
        )


def _check_times(system: Any, limits: Limits, now_ms: int) -> None:
    is_late = system.HasField("delivery_timestamp")
    if is_late and ms_of(system.delivery_timestamp) - now_ms > limits.delay_ms_max > 0:
        raise Refused(
            Code.ILLEGAL_DELIVERY_TIME, f"the delivery time is more than {limits.delay_ms_max // 1000} s from now"
        )
    if system.message_type != MessageType.TRANSACTION:
        return
    if is_late:
        raise Refused(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            "a message of a transaction has a delivery time",
            hint="send it without one",
        )
    if system.orphaned_transaction_recovery_duration.seconds > limits.recovery_s_max > 0:
        raise Refused(
            Code.BAD_REQUEST, f"the recovery duration of the transaction is more than {limits.recovery_s_max} s"
        )


def sys_flag_of(message: Any) -> int:
    """The system flag of the send. The gzip of gRPC clients is marked as RocketMQ's COMPRESSED without a kind."""
    system = message.system_properties
    flag = COMPRESSED if system.body_encoding == Encoding.GZIP else 0
    return flag | (TRANSACTION_PREPARED if system.message_type == MessageType.TRANSACTION else 0)


def properties_of(message: Any, peer: str) -> dict[str, str]:
    """The properties of a checked message as the broker stores them; `peer`: the client's address, in text."""
    system = message.system_properties
    properties = {name: value for name, value in message.user_properties.items() if name and value}
    if system.tag:
        properties[names.TAGS] = system.tag
    if keys := [key for key in system.keys if key]:
        properties[names.KEYS] = names.KEY_SEPARATOR.join(keys)
    properties[names.UNIQUE_KEY] = system.message_id
    if system.message_type == MessageType.TRANSACTION:
        properties[names.TRANSACTION_PREPARED] = "true"
        properties[names.PRODUCER_GROUP] = message.topic.name
        if system.HasField("orphaned_transaction_recovery_duration"):
            seconds = system.orphaned_transaction_recovery_duration.seconds
            properties[names.CHECK_IMMUNITY_TIME] = str(seconds)
    if system.HasField("delivery_timestamp"):
        properties[names.TIMER_DELIVER_MS] = str(ms_of(system.delivery_timestamp))
    if system.delivery_attempt:
        properties[names.RECONSUME_TIME] = str(system.delivery_attempt)
    if system.HasField("priority"):
        properties[names.PRIORITY] = str(system.priority)
    for name, text in (
        (names.SHARDING_KEY, system.message_group),
        (names.LITE_TOPIC, system.lite_topic),
        (names.TRACE_CONTEXT, system.trace_context),
        (names.BORN_HOST, system.born_host.strip() or peer),
    ):
        if text:
            properties[name] = text
    if system.HasField("born_timestamp"):
        properties[names.BORN_TIMESTAMP] = str(ms_of(system.born_timestamp))
    return properties


def type_of(message: Any) -> MessageType:
    """What the message is, by its fields: that is what the type of its topic is compared with."""
    system = message.system_properties
    if system.message_type == MessageType.TRANSACTION:
        return MessageType.TRANSACTION
    if system.HasField("delivery_timestamp"):
        return MessageType.DELAY
    if system.message_group:
        return MessageType.FIFO
    if system.HasField("priority"):
        return MessageType.PRIORITY
    return MessageType.LITE if system.lite_topic else MessageType.NORMAL


def type_of_properties(properties: Any) -> MessageType:
    """What a stored message is, in the same order."""
    if properties.get(names.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    if names.DELAY in properties or not names.TIMERS.isdisjoint(properties):
        return MessageType.DELAY
    if names.SHARDING_KEY in properties:
        return MessageType.FIFO
    if names.PRIORITY in properties:
        return MessageType.PRIORITY
    return MessageType.LITE if names.LITE_TOPIC in properties else MessageType.NORMAL
