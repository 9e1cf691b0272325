"""The pretty JSON text of the configuration files that RocketMQ brokers keep.

Owns        line breaks, tabs and key quoting of that text, so that both sides' files look alike in a diff.
Must not know   the files and their content.

Rules (fastjson, PrettyFormat): one tab per level, no space after the colon, text keys each on a line of their own,
number keys unquoted and without a line break before them, lists one element per line, sets on one line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

__all__ = ["to_pretty_text"]


def to_pretty_text(value: Any, depth: int = 0) -> str:
    """JSON text of dicts, lists, sets, text, numbers, booleans; members whose value is None are left out.

    `depth`: objects and lists around the value.
    """
    parts: list[str] = []
    _write(value, depth, parts)
    return "".join(parts)


def _write(value: Any, depth: int, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(json.dumps(value, ensure_ascii=False))
    elif value is True:
        parts.append("true")
    elif value is False:
        parts.append("false")
    elif value is None:
        parts.append("null")
    elif isinstance(value, int | float):
        parts.append(repr(value))
    elif isinstance(value, Mapping):
        _write_map(value, depth, parts)
    elif isinstance(value, AbstractSet):
        _write_set(value, depth, parts)
    elif isinstance(value, list | tuple):
        _write_list(value, depth, parts)
    else:
        raise TypeError(f"no JSON form for {type(value).__name__}")


def _write_map(value: Mapping[Any, Any], depth: int, parts: list[str]) -> None:
    members = [(key, member) for key, member in value.items() if member is not None]
    if not members:
        parts.append("{}")
        return
    inner = "\n" + "\t" * (depth + 1)
    separator = "{"
    for key, member in members:
        parts.append(separator)
        if isinstance(key, str):
            parts.append(f"{inner}{json.dumps(key, ensure_ascii=False)}:")
        else:
            parts.append(f"{key}:")
        _write(member, depth + 1, parts)
        separator = ","
    parts.append("\n" + "\t" * depth + "}")


def _write_list(value: list[Any] | tuple[Any, ...], depth: int, parts: list[str]) -> None:
    if not value:
        parts.append("[]")
        return
    inner = "\n" + "\t" * (depth + 1)
    separator = "["
    for element in value:
        parts.append(separator + inner)
        _write(element, depth + 1, parts)
        separator = ","
    parts.append("\n" + "\t" * depth + "]")


def _write_set(value: AbstractSet[Any], depth: int, parts: list[str]) -> None:
    parts.append("[")
    for position, element in enumerate(sorted(value)):
        if position:
            parts.append(",")
        _write(element, depth, parts)
    parts.append("]")
