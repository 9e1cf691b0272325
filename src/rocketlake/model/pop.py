"""Popped messages: the names of their retry topics, the handle by which a consumer acknowledges one.

Owns        the retry topics of a pop group, their marks, the text of a handle (RocketMQ's KeyBuilder, ExtraInfoUtil).
Must not know   how messages are popped.

Source: docs/internals/wire.md, "POP".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from rocketlake.base.errors import UsageError
from rocketlake.model.names import RETRY_PREFIX

__all__ = [
    "ANY_QUEUE",
    "NO_RETRY",
    "ORDER_REVIVE_QUEUE",
    "POINT_SPAN_MAX",
    "RETRY_MARKS",
    "RETRY_V1",
    "RETRY_V2",
    "REVIVE_GROUP",
    "PopHandle",
    "mark_of",
    "pop_retry_topic",
    "popped_topic",
    "real_topic",
]

NO_RETRY: Final = "0"
RETRY_V1: Final = "1"
RETRY_V2: Final = "2"
"""Marks of the topic that a popped message lies in."""
ANY_QUEUE: Final = -1
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
ORDER_REVIVE_QUEUE: Final = 999
"""In place of a queue of the revive topic: the message was popped in order."""
POINT_SPAN_MAX: Final = 4096
"""Queue offsets from the first to the last message of a check point, at most: far more than a pop hands out."""
_SEPARATORS = {RETRY_V1: "_", RETRY_V2: "+"}
RETRY_MARKS: Final = (RETRY_V1, RETRY_V2)
_PARTS_MIN = 7


def pop_retry_topic(topic: str, group: str, mark: str = RETRY_V1) -> str:
    """The topic through which the group gets popped messages of `topic` again."""
    return f"{RETRY_PREFIX}{group}{_SEPARATORS[mark]}{topic}"


def popped_topic(topic: str, group: str) -> str:
    """The topic whose popped messages come again through this one; another topic stays as it is."""
    for mark in RETRY_MARKS:
        if topic.startswith(start := pop_retry_topic("", group, mark)):
            return topic[len(start) :]
    return topic


def mark_of(topic: str) -> str:
    """The mark of the topic that a message lies in."""
    if not topic.startswith(RETRY_PREFIX):
        return NO_RETRY
    return RETRY_V2 if _SEPARATORS[RETRY_V2] in topic else RETRY_V1


def real_topic(topic: str, group: str, mark: str) -> str:
    """The topic that a message lies in: `topic` is the one that was popped. UsageError for an unknown mark."""
    if mark == NO_RETRY:
        return topic
    if mark not in _SEPARATORS:
        raise UsageError(f"the retry mark {mark[:20]!r} is not known", hint="use the one of the answer to the pop")
    return pop_retry_topic(topic, group, mark)


@dataclass(frozen=True, slots=True)
class PopHandle:
    """Names one popped message: POP_CK, extraInfo."""

    start_offset: int
    """The first queue offset of the check point that holds the message."""
    pop_ms: int
    invisible_ms: int
    revive_queue: int
    mark: str
    broker_name: str
    queue_id: int
    offset: int
    """-1 if the handle does not say it."""

    def __str__(self) -> str:
        return (
            f"{self.start_offset} {self.pop_ms} {self.invisible_ms} {self.revive_queue} {self.mark} {self.broker_name}"
            f" {self.queue_id} {self.offset}"
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """UsageError for a text that is no handle."""
        parts = text.split(" ")
        try:
            if len(parts) < _PARTS_MIN:
                raise ValueError("too few parts")
            start, pop_ms, invisible_ms, revive_queue, mark, broker, queue_id, offset = (*parts, "-1")[:8]
            return cls(
                int(start), int(pop_ms), int(invisible_ms), int(revive_queue), mark, broker, int(queue_id), int(offset)
            )
        except ValueError as error:
            raise UsageError(
                f"{text[:200]!r} is no handle of a popped message: {error}",
                hint="send the POP_CK of the message back as it came",
            ) from None
