"""Attributes of a topic: named settings beyond queues and permission.

Owns        the attributes that exist, their values, whether one may change later; the text of a change.
Must not know   what an attribute does.

Text of a change: "+key=value" adds or changes, "-key" removes, joined by commas. Rules: RocketMQ's TopicAttributes and
AttributeUtil; quotas (docs/decisions/0043) and tables of the lake (0048) are our own. Batch queues and compaction are
known but not served yet: the refusal says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketlake.base.errors import UsageError
from rocketlake.model.lite import LITE_LIFE, LITE_MINUTES_MAX
from rocketlake.model.quota import QUOTA_ATTRIBUTES, QUOTA_MAX
from rocketlake.model.table_wish import TABLE_ATTRIBUTES, check_table_attribute

__all__ = ["apply_changes"]

_VALUES = {
    "queue.type": ("SimpleCQ", "BatchCQ"),
    "cleanup.policy": ("DELETE", "COMPACTION"),
    "message.type": ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY", "LITE"),
}
_DIGITS_MAX = 19
_FIXED = ("queue.type", "cleanup.policy")
_NOT_SERVED = ("BatchCQ", "COMPACTION", "MIXED")
_RESERVE_TIME = "reserve.time"
_NUMBERS = {_RESERVE_TIME: (-1, 2**63 - 1), LITE_LIFE: (-1, LITE_MINUTES_MAX)}
_NAMES = (*_VALUES, *_NUMBERS, *QUOTA_ATTRIBUTES, *TABLE_ATTRIBUTES)


def apply_changes(current: Mapping[str, str] | None, text: str | None) -> dict[str, str]:
    """Attributes after a change; `current` None: the topic is new. UsageError for a change that is not allowed."""
    changed = dict(current or {})
    seen: set[str] = set()
    for part in (text or "").split(","):
        if not (part := part.strip()):
            continue
        sign, key, value = part[0], *_key_and_value(part[1:])
        if key in seen:
            raise UsageError(f"attribute {key} is given twice", hint="give each attribute once")
        seen.add(key)
        _check_change(sign, key, value, is_new=current is None)
        if sign == "+":
            changed[key] = value
        else:
            changed.pop(key, None)
    return changed


def _key_and_value(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key.strip(), value.strip()


def _check_change(sign: str, key: str, value: str, *, is_new: bool) -> None:
    if sign not in "+-":
        raise UsageError(f"attribute {sign}{key} has no sign", hint="write +key=value to add or change, -key to remove")
    if key not in _NAMES:
        raise UsageError(f"unknown attribute {key!r}", hint="write one of " + ", ".join(_NAMES))
    if is_new and sign == "-":
        raise UsageError(f"attribute {key} cannot be removed from a topic that is new", hint=f"leave out -{key}")
    if not is_new and key in _FIXED:
        raise UsageError(
            f"attribute {key} cannot change after the topic was made",
            hint="make another topic, or delete this one and make it anew",
        )
    if sign == "+":
        _check_value(key, value)


def _check_value(key: str, value: str) -> None:
    if key in QUOTA_ATTRIBUTES:
        if not (value.isascii() and value.isdecimal()) or not 1 <= int(value) <= QUOTA_MAX:
            raise UsageError(
                f"attribute {key}={value!r} is no quota", hint=f"write 1 to {QUOTA_MAX} a second; -{key} takes it away"
            )
    elif key in TABLE_ATTRIBUTES:
        check_table_attribute(key, value)
    elif key in _NUMBERS:
        low, high = _NUMBERS[key]
        is_number = value.isascii() and value.removeprefix("-").isdecimal()
        if not is_number or len(value) > _DIGITS_MAX or not low <= int(value) <= high:
            raise UsageError(f"attribute {key}={value!r} is out of range", hint=f"write a number from {low} to {high}")
    elif value not in _VALUES[key]:
        raise UsageError(f"attribute {key}={value!r} is not known", hint="write one of " + ", ".join(_VALUES[key]))
    elif value in _NOT_SERVED:
        raise UsageError(
            f"attribute {key}={value} is not supported by this broker",
            hint=f"leave out +{key}, or give it another value",
        )
