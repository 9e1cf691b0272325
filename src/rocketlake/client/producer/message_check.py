"""The messages that a producer refuses, before a broker would.

Owns        the checks of a message's topic, body, flag, tag and delay; the message as it is at a call.
Must not know   where messages go.

A compiled twin: both are done for each message that is sent.
"""

from __future__ import annotations

import copy

from rocketlake.base.errors import UsageError
from rocketlake.base.settings.arguments import check_number
from rocketlake.client.config import ProducerConfig
from rocketlake.model import names, property_names
from rocketlake.model.message import Message

__all__ = ["TAG_SEPARATOR", "MessageCheck", "as_now"]

TAG_SEPARATOR = "||"
GOOD_TOPICS_MAX = 1024
_FLAG_END = 1 << 31
_CHECKED = frozenset((property_names.TAGS, property_names.DELAY))


class MessageCheck:
    """The checks of one producer; it remembers the topics it found good, so that each is checked once."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._bytes_max = config.message_bytes_max
        self._good_topics: set[str] = set()

    def check(self, message: Message) -> None:
        """Raises UsageError."""
        topic, body = message.topic, message.body
        if topic not in self._good_topics:
            self._check_topic(topic)
        if not body:
            raise UsageError(
                f"message to topic {topic!r} has an empty body, which RocketMQ refuses",
                hint="send at least one byte",
            )
        if len(body) > self._bytes_max:
            raise UsageError(
                f"message to {topic!r} has {len(body)} bytes, limit {self._bytes_max}",
                where="ProducerConfig.message_bytes_max",
                hint="send less, or raise it here and as maxMessageSize at the broker",
            )
        flag = message.flag
        if type(flag) is not int or (flag and not -_FLAG_END <= flag < _FLAG_END):
            check_number("the flag of a message", flag, -_FLAG_END, _FLAG_END - 1, where=f"topic {topic!r}")
        properties = message.properties
        if properties and not _CHECKED.isdisjoint(properties):
            self._check_properties(message)

    def _check_properties(self, message: Message) -> None:
        if message.tags and TAG_SEPARATOR in message.tags:
            raise UsageError(
                f"the tag {message.tags!r} holds {TAG_SEPARATOR}, which no subscription can name",
                hint="give the message one tag, and put the others into properties",
            )
        level = message.properties.get(property_names.DELAY)
        levels = self._config.delay_level_max
        if level is not None and not (level.isdecimal() and int(level) <= levels):
            raise UsageError(
                f"delay_level={level} is not a delay level",
                where="ProducerConfig.delay_level_max",
                hint=f"use 1 to {levels}, or 0 for no delay",
            )

    def _check_topic(self, topic: str) -> None:
        names.check_topic(topic)
        if not names.is_sendable_topic(topic):
            hint = "send to a topic of your own"
            raise UsageError(f"topic {topic!r} belongs to the broker; clients cannot send to it", hint=hint)
        if len(self._good_topics) >= GOOD_TOPICS_MAX:
            self._good_topics.clear()
        self._good_topics.add(topic)


def as_now(message: Message) -> Message:
    """The message as it is now, which its caller cannot change any more. UsageError if it is none."""
    if not isinstance(message, Message):
        what = f"what is sent is a Message, not {type(message).__name__}"
        raise UsageError(what, hint='write rocketlake.Message("topic", b"body")')
    topic, body, properties = message.topic, message.body, message.lazy_properties
    if type(message) is Message and type(topic) is str and type(body) is bytes and type(properties) is dict:
        own = Message.__new__(Message)  # nothing is left for its __init__ to check
        own.topic, own.body, own.flag = topic, body, message.flag
        own.lazy_properties = properties.copy()
        return own
    return _checked(message)


def _checked(message: Message) -> Message:
    own = Message(message.topic, message.body, flag=message.flag)
    if type(message) is not Message:
        own, body = copy.copy(message), own.body
        own.body = body
    own.properties = dict(message.properties)
    return own
