"""The one way to call waiters, listeners and callbacks: a callback that raises harms no other callback.

Owns        the log line about a callback that raised; the shape of a wait between two steps.
Must not know   what the callbacks do.

A hot loop that must save this call has its own `except Exception` around the callback, and calls `raised`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from rocketlake.base.logs import RareWarnings, get_logger

__all__ = ["Step", "Wait", "call", "call_each", "raised"]

_log = get_logger(__name__)
_errors = RareWarnings(_log)

Wait: TypeAlias = Callable[[Callable[[], object]], object]
"""Work in steps yields this when its next step must wait: it is called with the call by which the steps go on."""
Step: TypeAlias = Any
"""What work in steps yields: None, or a Wait. (Any, because a bare `yield` fits no optional type.)"""


def call(callback: Callable[..., object], *args: object) -> bool:
    """Call the callback. If it raises, log the exception and return False."""
    try:
        callback(*args)
    except (Exception, asyncio.CancelledError) as error:
        # CancelledError comes from a future the callback asked: a plain call cannot itself be cancelled.
        raised(callback, error)
        return False
    return True


def call_each(callbacks: Iterable[Callable[..., object]], *args: object) -> None:
    """Call all callbacks with these arguments, even if some raise."""
    for callback in tuple(callbacks):
        call(callback, *args)


def raised(callback: Callable[..., Any], error: BaseException) -> None:
    """`callback` raised `error`: log it, at most every ten seconds for the same callback and error."""
    name = getattr(callback, "__qualname__", None) or repr(callback)
    _errors.error(f"{name} {type(error).__name__}", error, "callback %s failed, all others go on: %r", name, error)
