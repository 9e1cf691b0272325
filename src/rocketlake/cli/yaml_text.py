"""Plain values as YAML, in blocks: what `-o yaml` prints, without a library that only Spark's extra has.

Owns        the text.
Must not know   what the values mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["yaml_text"]

_BARE = re.compile(r"[A-Za-z_/][\w %./+-]*(?<! )")
"""Texts that stand without quotes; all others stand as JSON writes them, which is YAML, too."""
_NOT_TEXT = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


def yaml_text(value: Any) -> str:
    """The text of what json.loads gives: objects, lists, texts, numbers, true, false and null."""
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _entry(f"{_scalar(key)}:", each, indented=isinstance(each, dict))
    elif isinstance(value, list) and value:
        for each in value:
            first, *rest = _lines(each)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _entry(head: str, value: Any, *, indented: bool) -> Iterator[str]:
    if not value or not isinstance(value, (dict, list)):
        yield f"{head} {_scalar(value)}"
        return
    yield head
    yield from (f"  {line}" if indented else line for line in _lines(value))


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)
    if isinstance(value, float) and "." not in text:
        return text.replace("e", ".0e")  # YAML's numbers have a point
    return text
