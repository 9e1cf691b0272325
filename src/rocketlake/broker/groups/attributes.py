"""Attributes of a group: named settings beyond retries and permission.

Owns        the attributes that exist and their values; the changes that a request asks for.
Must not know   what an attribute does.

A request names each change with a sign, as RocketMQ's AttributeUtil: "+name" adds or changes, "-name" removes. What is
not named stays. Names and values: RocketMQ's SubscriptionGroupAttributes of 5.5.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketlake.base.errors import UsageError

__all__ = ["apply_changes"]

_BOOLEAN = ("true", "false")
_WORDS = {
    "lite.sub.model": ("Shared", "Exclusive"),
    "lite.sub.reset.offset.exclusive": _BOOLEAN,
    "lite.sub.reset.offset.unsubscribe": _BOOLEAN,
}
_NUMBERS = {
    "priority.factor": (0, 100),
    "lite.sub.client.quota": (-1, 2**63 - 1),
    "lite.sub.client.max.event.cnt": (10, 2**63 - 1),
}
_TEXTS = ("lite.bind.topic", "lite.sub.wildcard")
_NAMES = sorted([*_WORDS, *_NUMBERS, *_TEXTS])


def apply_changes(current: Mapping[str, str] | None, changes: Mapping[str, str]) -> dict[str, str]:
    """Attributes after these changes; `current` None: the group is new. UsageError for a change that is not allowed."""
    changed, named = dict(current or {}), set[str]()
    for key, value in changes.items():
        sign, name = key[:1], key[1:]
        if sign not in ("+", "-"):
            if changed.get(key) == value:
                continue  # settings that were read, and are written back
            raise UsageError(
                f"attribute {key!r} has no sign", hint="write +name=value to add or change, -name to remove"
            )
        if name in named:
            raise UsageError(f"attribute {name} is given twice", hint="give each attribute once")
        named.add(name)
        if sign == "+":
            _check(name, value)
            changed[name] = value
        elif current is None:
            raise UsageError(f"attribute {name} cannot be removed from a group that is new", hint=f"leave out -{name}")
        elif name not in changed and name not in _NAMES:
            raise _unknown(name)
        else:
            changed.pop(name, None)
    return changed


def _check(name: str, value: str) -> None:
    if name in _WORDS:
        if value not in _WORDS[name]:
            raise UsageError(f"attribute {name}={value!r} is not known", hint="write one of " + ", ".join(_WORDS[name]))
    elif name in _NUMBERS:
        least, most = _NUMBERS[name]
        is_number = value.isascii() and value.removeprefix("-").isdecimal() and len(value) < 20
        if not is_number or not least <= int(value) <= most:
            raise UsageError(
                f"attribute {name}={value!r} is no number from {least} to {most}",
                hint="write a whole number in that range",
            )
    elif name not in _TEXTS:
        raise _unknown(name)


def _unknown(name: str) -> UsageError:
    return UsageError(f"unknown attribute {name!r}", hint="write one of " + ", ".join(_NAMES))
