"""The one way to call waiters, listeners and callbacks: one that raises harms no other.

Owns        the log line about a callback that raised.
Must not know   what the callbacks do.

A loop that is too hot for one more call of ours has its own `except Exception` around the callback, and says `raised`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from rocketlake.base.logs import RareWarnings, get_logger

__all__ = ["call", "call_each", "raised"]

_log = get_logger(__name__)
_errors = RareWarnings(_log)


def call(callback: Callable[..., object], *args: object) -> bool:
    """Call it; an exception is logged and False returned."""
    try:
        callback(*args)
    except (Exception, asyncio.CancelledError) as error:
        # Cancelled is only some future the callback looked at: a plain call cannot be cancelled itself.
        raised(callback, error)
        return False
    return True


def call_each(callbacks: Iterable[Callable[..., object]], *args: object) -> None:
    """Call all of them with these arguments, whichever raise."""
    for callback in tuple(callbacks):
        call(callback, *args)


def raised(callback: Callable[..., Any], error: BaseException) -> None:
    """`callback` raised `error`: log it, one of a kind at most every ten seconds."""
    name = getattr(callback, "__qualname__", None) or repr(callback)
    _errors.error(f"{name} {type(error).__name__}", error, "callback %s failed, all others go on: %r", name, error)
