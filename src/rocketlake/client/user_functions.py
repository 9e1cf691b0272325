"""Functions that users give a client: their two kinds, and the exceptions that they may raise.

Owns        the refusal of a value that cannot be called, what counts as an async function, which exceptions are the
            caller's and not the function's.
Must not know   when they are called.
"""

from __future__ import annotations

import asyncio
import inspect

from rocketlake.base.errors import UsageError

__all__ = ["check_function", "is_async", "is_for_caller"]


def check_function(name: str, function: object, *, takes: str) -> None:
    """UsageError unless it can be called. `takes`: its arguments."""
    if not callable(function):
        what = f"{name} is a function, not {type(function).__name__}"
        raise UsageError(what, hint=f"give {name} a function that takes {takes}")


def is_async(function: object) -> bool:
    """True for a function to be awaited on the loop; a plain function runs on a worker thread."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object with `async def __call__`
    )


def is_for_caller(error: BaseException) -> bool:
    """True when an exception of a user's function must end the task that called the function.

    That is Ctrl-C, and the cancellation of that very task. Any other exception is a failure of the function and no
    more: also `sys.exit()`, and the cancellation of a task for which the function waited.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)
