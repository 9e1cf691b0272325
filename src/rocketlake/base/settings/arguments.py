"""What a caller gives to a public function: a value of another kind, or a number out of range, is refused by its name.

Owns        these refusals and their words.
Must not know   single functions, settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from rocketlake.base.errors import UsageError

__all__ = ["check_kind", "check_number", "check_text", "listed"]

T = TypeVar("T")
_WORDS: Mapping[type, str] = {
    str: "text",
    bytes: "bytes",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    Callable: "a function",  # type: ignore[dict-item]
    Collection: "a list",
    Mapping: "a dict",
}


def check_kind(name: str, value: object, kind: type, *, hint: str = "", where: str = "") -> None:
    """UsageError unless `value` is of this kind."""
    if not isinstance(value, kind):
        word = _WORDS.get(kind) or f"a {kind.__name__}"
        raise UsageError(
            f"{name} is {word}, not {type(value).__name__}", where=where, hint=hint or f"give {name} as {word}"
        )


def check_text(name: str, value: object, *, where: str = "", means: str = "") -> None:
    """UsageError unless it is text, or a path."""
    if not isinstance(value, str | os.PathLike):
        hint = f"decode it: {name}.decode()" if isinstance(value, bytes) else f"give {name} as text"
        raise UsageError(f"{name} is text, not {type(value).__name__}{_meaning(means)}", where=where, hint=hint)


def check_number(
    name: str,
    value: Any,
    low: float | None = None,
    high: float | None = None,
    *,
    kind: type[int] | type[float] = int,
    where: str = "",
    means: str = "",
) -> None:
    """UsageError unless it is a number from `low` to `high`; a whole one, unless `kind` is float."""
    if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
        what = f"{name} is {_WORDS[kind]}, not {value!r}"
    elif (low is not None and not value >= low) or (high is not None and not value <= high):
        what = f"{name}={value!r} is out of range"  # NaN, too
    else:
        return
    raise UsageError(what + _meaning(means), where=where, hint=f"give it {_bounds(low, high) or _WORDS[kind]}")


def listed(name: str, values: object, kind: type[T], *, hint: str) -> list[T]:
    """The values, in order. UsageError unless they are several of this kind: a list, a tuple, a set."""
    odd: object = values
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        found = list(values)
        strangers = [value for value in found if not isinstance(value, kind)]
        if not strangers:
            return found
        odd = strangers[0]
    each = {str: "of texts", object: "or a tuple"}.get(kind, f"of {kind.__name__} values")
    raise UsageError(f"{name} are a list {each}, not {type(odd).__name__}", hint=hint)


def _meaning(means: str) -> str:
    return f"; it means: {means}" if means else ""


def _bounds(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"at least {low}" if low is not None else f"at most {high}" if high is not None else ""
    return f"{low} to {high}"
