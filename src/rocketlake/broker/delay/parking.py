"""Parks a message that asks to be delivered later.

Owns        the rewrite of a message into the delay topic, and back.
Must not know   how the message is stored, when it is delivered.

Rules (RocketMQ's HookUtils): property DELAY above 0 parks the message in queue DELAY - 1 of SCHEDULE_TOPIC_XXXX, its
target in REAL_TOPIC and REAL_QID; the timer properties are dropped then. Timer properties alone park it in the timer
topic, with the time of its tick in TIMER_OUT_MS: the tick before the one at whose begin it may be delivered. A time
that is over makes a message like any other; so does TIMER_OUT_MS, which says that it went through a wheel already.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError
from rocketlake.model import property_names as names
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.model.topic import DELAY_TOPIC, TIMER_TOPIC
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage

__all__ = ["TIMER_NAMES", "Parking", "TimerRules", "delay_level", "real_target", "timer_property"]

TIMER_NAMES = (names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)
"""Of several the first counts."""
_DIGITS_MAX = 18


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


@dataclass(frozen=True, slots=True)
class TimerRules:
    """For which times the timer takes messages."""

    is_enabled: bool = True
    precision_ms: int = 1000
    """The length of a tick."""
    delay_ms_max: int = 3 * 24 * 3600 * 1000
    roll_ms: int = 2 * 24 * 3600 * 1000
    """A message that waits longer is stored anew meanwhile."""


class Parking:
    """Puts messages aside that ask to come later."""

    def __init__(self, levels: DelayLevels, rules: TimerRules, clock: Clock) -> None:
        self._levels = levels
        self._rules = rules
        self._clock = clock

    def park(self, message: PutMessage, properties: dict[str, str]) -> None:
        """Turn a message that asks for it into one of the delay topic or of the timer topic, in place.

        RemoteError if its time cannot be read, or is too far away.
        """
        level = delay_level(properties)
        if level > 0:
            for name in TIMER_NAMES:
                properties.pop(name, None)
            level = self._levels.clamp(level)
            properties[names.DELAY] = str(level)
            _set_aside(message, properties, DELAY_TOPIC, self._levels.queue_id(level))
        elif (asked := timer_property(properties)) is not None and message.topic != TIMER_TOPIC:
            self._park_for_time(message, properties, asked)

    def _park_for_time(self, message: PutMessage, properties: dict[str, str], name: str) -> None:
        rules, now_ms = self._rules, self._clock.now_ms()
        if not rules.is_enabled:
            raise RemoteError(
                f"accurate timer message is not enabled: property {name}={properties[name][:40]!r}",
                code=ResponseCode.SYSTEM_ERROR,
                hint="use a delay level (property DELAY, 1 to 18), or set timerWheelEnable=true at the broker",
            )
        due_ms = _due_ms(name, properties[name], now_ms)
        if due_ms - now_ms > rules.delay_ms_max:
            raise RemoteError(
                f"the delay of {(due_ms - now_ms) // 1000} s is longer than {rules.delay_ms_max // 1000} s",
                code=ResponseCode.MESSAGE_ILLEGAL,
                hint="choose a time before that, or set timerMaxDelaySec at the broker",
            )
        if due_ms > now_ms:
            properties[names.TIMER_OUT_MS] = str((due_ms - 1) // rules.precision_ms * rules.precision_ms)
            _set_aside(message, properties, TIMER_TOPIC, 0)
        elif names.TIMER_DELETE_UNIQUE_KEY in properties:
            raise RemoteError("the message to take back is delivered", code=ResponseCode.MESSAGE_ILLEGAL)


def _set_aside(message: PutMessage, properties: dict[str, str], topic: str, queue_id: int) -> None:
    properties[names.REAL_TOPIC] = message.topic
    properties[names.REAL_QUEUE_ID] = str(message.queue_id)
    message.topic = topic
    message.queue_id = queue_id


def real_target(properties: dict[str, str]) -> tuple[str, int] | None:
    """(topic, queue id) a parked message is meant for; None if its properties name no target."""
    topic = properties.get(names.REAL_TOPIC)
    queue_id = properties.get(names.REAL_QUEUE_ID, "")
    if not topic or not queue_id.isdecimal():
        return None
    return topic, int(queue_id)


def _due_ms(name: str, text: str, now_ms: int) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= _DIGITS_MAX):
        raise RemoteError(f"property {name}={text[:40]!r} is no number", code=ResponseCode.MESSAGE_ILLEGAL)
    number = int(text)
    if name == names.TIMER_DELIVER_MS:
        return number
    return now_ms + number * (1000 if name == names.TIMER_DELAY_SEC else 1)
