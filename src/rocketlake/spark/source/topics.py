"""The topics and queues of a read: option subscribe, subscribePattern or assign.

Owns        reading these options, telling users' topics from those of RocketMQ itself.
Must not know   routes, offsets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import (
    check_topic,
    is_dead_letter_topic,
    is_reply_topic,
    is_retry_topic,
    is_system_topic,
)
from rocketlake.spark.option_values import Given

__all__ = ["TopicChoice", "parse_choice"]

_WAYS = ("subscribe", "subscribePattern", "assign")
_ASSIGN_FORM = '{"orders": {"broker-a": [0, 1]}}'


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """Topics by name, by pattern, or single queues."""

    names: tuple[str, ...] = ()
    """Named topics, those of the assigned queues included; empty for a pattern."""
    pattern: str = ""
    include_system: bool = False
    assigned: frozenset[MessageQueue] = frozenset()

    def __str__(self) -> str:
        if self.pattern:
            return f"pattern {self.pattern}"
        queues = ",".join(f"{q.topic}/{q.broker_name}/{q.queue_id}" for q in sorted(self.assigned))
        return queues or ",".join(self.names)

    def of_all(self, topics: Iterable[str], reserved: Collection[str]) -> list[str]:
        """The topics that the pattern takes; `reserved` = names of clusters and brokers, which are topics as well."""
        expression = re.compile(self.pattern)
        return sorted(
            topic
            for topic in topics
            if expression.fullmatch(topic) and (self.include_system or not _is_own(topic, reserved))
        )

    def of_route(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """The queues of a topic's route that are read."""
        return {queue for queue in queues if queue in self.assigned} if self.assigned else set(queues)


def _is_own(topic: str, reserved: Collection[str]) -> bool:
    return (
        topic in reserved
        or is_system_topic(topic)
        or is_retry_topic(topic)
        or is_dead_letter_topic(topic)
        or is_reply_topic(topic)
    )


def parse_choice(given: Given) -> TopicChoice:
    """Exactly one of the three options; UsageError otherwise."""
    ways = [way for way in _WAYS if given.text(way)]
    if not ways:
        raise UsageError(
            "option 'subscribe' is missing",
            hint='give .option("subscribe", "orders") or "orders,payments"; or \'subscribePattern\', or \'assign\'',
        )
    if len(ways) > 1:
        raise UsageError("options " + " and ".join(f"'{way}'" for way in ways) + " are given", hint="keep one of them")
    include_system = given.flag("includeSystemTopics", default=False)
    if ways[0] == "subscribePattern":
        return TopicChoice(pattern=_pattern(given.text("subscribePattern")), include_system=include_system)
    if "includeSystemTopics" in given:
        raise UsageError("option 'includeSystemTopics' belongs to 'subscribePattern'", hint="remove it")
    if ways[0] == "assign":
        assigned = _assigned(given.text("assign"))
        return TopicChoice(names=tuple(sorted({queue.topic for queue in assigned})), assigned=assigned)
    names = tuple(sorted({part.strip() for part in given.text("subscribe").split(",") if part.strip()}))
    if not names:
        raise UsageError(f"option 'subscribe' is '{given.values['subscribe']}'", hint="write orders or orders,payments")
    for name in names:
        check_topic(name)
    return TopicChoice(names=names)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        where = "" if error.pos is None else f" at character {error.pos + 1}"
        raise UsageError(
            f"option 'subscribePattern' is '{text}', which is no regular expression: {error.msg}{where}",
            hint="give an expression of Python's re that takes the whole topic name, like orders-.*",
        ) from error
    return text


def _assigned(text: str) -> frozenset[MessageQueue]:
    try:
        queues = [
            MessageQueue(topic, broker, _number(number))
            for topic, brokers in json.loads(text).items()
            for broker, numbers in brokers.items()
            for number in _list(numbers)
        ]
    except (ValueError, AttributeError, TypeError):
        queues = []
    if not queues:
        raise UsageError(f"option 'assign' is '{text[:200]}'", hint=_ASSIGN_FORM)
    for topic in {queue.topic for queue in queues}:
        check_topic(topic)
    if len(queues) != len(set(queues)):
        raise UsageError(f"option 'assign' names a queue twice: {text[:200]}", hint=_ASSIGN_FORM)
    return frozenset(queues)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("queue ids are a list")
    return value


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError("a queue id is a whole number")
    return value
