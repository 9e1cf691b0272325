"""Parks a message that asks to be delivered later.

Owns        the rewrite of a message into the delay topic, and back.
Must not know   how the message is stored, clocks.

Rule (RocketMQ's HookUtils): property DELAY above 0 parks the message in queue DELAY - 1 of SCHEDULE_TOPIC_XXXX, its
target in REAL_TOPIC and REAL_QID; the timer properties are dropped then. Timer properties alone need the timer wheel.
This broker has none, and refuses such a message as an Apache broker with timerWheelEnable=false does. With TIMER_OUT_MS
it went through a wheel already, and is a message like any other.
"""

from __future__ import annotations

from rocketlake.base.errors import RemoteError
from rocketlake.model import property_names as names
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.model.topic import DELAY_TOPIC
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage

__all__ = ["TIMER_NAMES", "delay_level", "park_if_delayed", "real_target", "timer_property"]

TIMER_NAMES = (names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS)


def delay_level(properties: dict[str, str]) -> int:
    """The level a message asks for; 0 if it asks for none, or for a text that is no number."""
    text = properties.get(names.DELAY)
    if text is None:
        return 0
    try:
        return int(text)
    except ValueError:
        return 0


def timer_property(properties: dict[str, str]) -> str | None:
    """The property by which a message asks for the timer wheel; None if it asks for none, or went through one."""
    if names.TIMER_OUT_MS in properties:
        return None
    return next((name for name in TIMER_NAMES if name in properties), None)


def park_if_delayed(message: PutMessage, properties: dict[str, str], levels: DelayLevels) -> None:
    """Turn a delayed message into one of the delay topic, in place. RemoteError if it needs the timer wheel."""
    level = delay_level(properties)
    if level <= 0:
        _refuse_timer(properties)
        return
    for name in TIMER_NAMES:
        properties.pop(name, None)
    level = levels.clamp(level)
    properties[names.DELAY] = str(level)
    properties[names.REAL_TOPIC] = message.topic
    properties[names.REAL_QUEUE_ID] = str(message.queue_id)
    message.topic = DELAY_TOPIC
    message.queue_id = levels.queue_id(level)


def real_target(properties: dict[str, str]) -> tuple[str, int] | None:
    """(topic, queue id) a parked message is meant for; None if its properties name no target."""
    topic = properties.get(names.REAL_TOPIC)
    queue_id = properties.get(names.REAL_QUEUE_ID, "")
    if not topic or not queue_id.isdecimal():
        return None
    return topic, int(queue_id)


def _refuse_timer(properties: dict[str, str]) -> None:
    name = timer_property(properties)
    if name is not None:
        raise RemoteError(
            f"accurate timer message is not enabled: property {name}={properties[name][:40]!r}",
            code=ResponseCode.SYSTEM_ERROR,
            hint="use a delay level (property DELAY, 1 to 18)",
        )
