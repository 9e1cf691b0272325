"""Functions that users give a client: their two kinds, and the exceptions that they may raise.

Owns        the refusal of a value that cannot be called, what counts as an async function, running plain functions on
            worker threads, which exceptions are the caller's and not the function's.
Must not know   when they are called.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar, cast

from rocketlake.base.errors import UsageError

__all__ = ["FunctionCall", "check_function", "is_async", "is_for_caller"]

T = TypeVar("T")
R = TypeVar("R")


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


class FunctionCall(Generic[T, R]):
    """Calls a user's function: `async def` on the loop, a plain function on one of `threads` worker threads."""

    def __init__(self, function: Callable[[T], R | Awaitable[R]], *, threads: int) -> None:
        self._function = function
        self._pool = (
            None if is_async(function) else ThreadPoolExecutor(threads, thread_name_prefix="rocketlake-listener")
        )

    @property
    def ends_when_cancelled(self) -> bool:
        """True for a coroutine. A function on a thread runs on until it returns."""
        return self._pool is None

    def begin(self, argument: T) -> Awaitable[R]:
        """Start the function; the awaitable gives its result, or raises its exception."""
        if self._pool is None:
            return cast("Awaitable[R]", self._function(argument))
        loop = asyncio.get_running_loop()
        return cast(
            "Awaitable[R]", loop.run_in_executor(self._pool, contextvars.copy_context().run, self._function, argument)
        )

    def close(self) -> None:
        """Free the worker threads; a function still running finishes by itself."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def is_for_caller(error: BaseException) -> bool:
    """True when an exception of a user's function must end the task that called the function.

    That is Ctrl-C, and the cancellation of that very task. Any other exception is a failure of the function and no
    more: also `sys.exit()`, and the cancellation of a task for which the function waited.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)
