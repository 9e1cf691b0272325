"""Lite topics: the many small topics inside a parent topic, and the light queue that each of them is.

Owns        names, the name of a light queue, the marks of a stored lite message.
Must not know   where light queues are kept.

Source: RocketMQ 5.5's LiteUtil and TopicMessageType.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from rocketlake.model.topic import TopicConfig

__all__ = [
    "LIGHT_PREFIX",
    "LITE_BIND",
    "LITE_CHARS",
    "LITE_CHARS_MAX",
    "LITE_EVENTS",
    "LITE_EVENTS_DEFAULT",
    "LITE_EXCLUSIVE",
    "LITE_LIFE",
    "LITE_MINUTES_MAX",
    "LITE_MODEL",
    "LITE_QUEUE",
    "LITE_QUOTA",
    "LITE_QUOTA_DEFAULT",
    "LITE_RESET_EXCLUSIVE",
    "LITE_RESET_UNSUBSCRIBE",
    "LITE_WILDCARD",
    "Place",
    "is_lite_name",
    "is_lite_topic",
    "light_queue",
    "lite_minutes",
    "split_light_queue",
]

LIGHT_PREFIX: Final = "%LMQ%$"
LITE_CHARS_MAX: Final = 64
LITE_CHARS: Final = re.compile(r"[a-zA-Z0-9_-]+")
LITE_BIND: Final = "lite.bind.topic"
"""Attribute of a group: the parent whose lite topics it consumes."""
LITE_LIFE: Final = "lite.topic.expiration"
"""Attribute of a parent: minutes behind its last message until a lite topic has expired; -1: never."""
LITE_MINUTES_MAX: Final = 43_200
_DIGITS = 10
LITE_QUOTA: Final = "lite.sub.client.quota"
"""Attribute of a group: most lite topics of one of its clients; below 0: any number."""
LITE_QUOTA_DEFAULT: Final = 2000
LITE_WILDCARD: Final = "lite.sub.wildcard"
"""Attribute of a group that gets all lite topics of its parent, whatever it says."""
LITE_EVENTS: Final = "lite.sub.client.max.event.cnt"
"""Attribute of a wildcard group: most lite topics that wait for its clients in memory."""
LITE_EVENTS_DEFAULT: Final = 400
LITE_MODEL: Final = "lite.sub.model"
"""Attribute of a group: LITE_EXCLUSIVE if each lite topic belongs to one of its clients at a time."""
LITE_EXCLUSIVE: Final = "Exclusive"
LITE_RESET_EXCLUSIVE: Final = "lite.sub.reset.offset.exclusive"
"""Attribute of a group: "true" if a client that takes a lite topic from another begins at its first message."""
LITE_RESET_UNSUBSCRIBE: Final = "lite.sub.reset.offset.unsubscribe"
"""Attribute of a group: "true" if it begins at the first message of a lite topic that a client unsubscribes from."""
LITE_QUEUE: Final = 0
"""The only queue id of a light queue."""


class Place(NamedTuple):
    """Where a lite message lies: in a queue of its parent topic."""

    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return f"{self.queue_id} {self.queue_offset}"

    @classmethod
    def parse(cls, text: str) -> Place | None:
        """The place that a property names; None for another text."""
        queue_id, _, queue_offset = text.partition(" ")
        if not (queue_id.isascii() and queue_id.isdecimal() and queue_offset.isascii() and queue_offset.isdecimal()):
            return None
        return cls(int(queue_id), int(queue_offset))


def is_lite_name(name: str) -> bool:
    """True if a lite topic may have this name."""
    return len(name) <= LITE_CHARS_MAX and LITE_CHARS.fullmatch(name) is not None


def is_lite_topic(topic: TopicConfig) -> bool:
    """True if the topic is a parent of lite topics."""
    return topic.attributes.get("message.type") == "LITE"


def lite_minutes(parent: TopicConfig) -> int:
    """How long its lite topics live without a message; -1: for ever."""
    text = parent.attributes.get(LITE_LIFE, "")
    return min(int(text), LITE_MINUTES_MAX) if text.isascii() and text.isdecimal() and len(text) < _DIGITS else -1


def light_queue(parent: str, lite: str) -> str:
    """The name under which offsets and marks of a lite topic are kept."""
    return f"{LIGHT_PREFIX}{parent}${lite}"


def split_light_queue(name: str) -> tuple[str, str] | None:
    """The parent and the lite topic of a light queue; None for another name."""
    if not name.startswith(LIGHT_PREFIX):
        return None
    parent, _, lite = name[len(LIGHT_PREFIX) :].rpartition("$")
    return (parent, lite) if parent and lite else None
