"""Room for what the broker's own copies of a message add to its properties.

Owns        the room that a half message and a retry need, what a dead letter can do without.
Must not know   requests, how a copy is stored.

Rule: a message is taken up to RocketMQ's limit of 32767 bytes of properties, and no copy of it stands still there.

- A half message without room for its checks is refused, before its producer does its part (`HALF_ROOM_BYTES`).
- A delayed message has the marks of its delay when it is measured; its delivered copy needs no more.
- A message without room for another try becomes a dead letter when it fails.
- A dead letter leaves marks out until it fits, the least wanted first: the properties of its producer stay whole.
"""

from __future__ import annotations

from rocketlake.codec import property_text
from rocketlake.codec.record_layout import PROPERTIES_BYTES_MAX
from rocketlake.model import property_names as names

__all__ = ["HALF_ROOM_BYTES", "fit_dead_letter", "has_retry_room"]

HALF_ROOM_BYTES = len(
    property_text.encode({names.TRANSACTION_PREPARED_QUEUE_OFFSET: "9" * 19, names.TRANSACTION_CHECK_TIMES: "9" * 10})
)
"""What the copies of a half message add at most, while its producer is asked about it."""
_QUEUE_ID_DIGITS = 10
_TIME_DIGITS = 13
_LEAST_WANTED = (
    names.MAX_RECONSUME_TIMES,
    names.RECONSUME_TIME,
    names.REAL_QUEUE_ID,
    names.REAL_TOPIC,
    names.DELAY,
    names.WAIT,
    names.TRACE_SWITCH,
    names.MESSAGE_REGION,
    names.CLUSTER,
    names.LAST_ERROR,
    names.ORIGIN_MESSAGE_ID,
    names.RETRY_TOPIC,
)
"""The marks of a dead letter. A consumer or the broker wrote them on its way."""


def has_retry_room(properties: dict[str, str], retry_topic: str) -> bool:
    """True if a message with these properties can wait in the delay topic for another try."""
    waiting = properties | {names.REAL_TOPIC: retry_topic, names.REAL_QUEUE_ID: "9" * _QUEUE_ID_DIGITS}
    if names.TIMER_DELAY_MS in properties:
        waiting[names.TIMER_OUT_MS] = "9" * _TIME_DIGITS
    return len(property_text.encode_again(waiting)) <= PROPERTIES_BYTES_MAX


def fit_dead_letter(properties: dict[str, str]) -> None:
    """Leave marks out, in place, until the properties can be stored."""
    marks = iter(_LEAST_WANTED)
    while len(property_text.encode_again(properties)) > PROPERTIES_BYTES_MAX:
        mark = next(marks, None)
        if mark is None:
            return
        properties.pop(mark, None)
