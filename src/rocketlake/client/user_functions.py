"""Functions that users give a client: telling their two kinds, and what may come out of them.

Owns        what counts as an async function, which exceptions are the caller's and not the function's.
Must not know   when they are called.
"""

from __future__ import annotations

import asyncio
import inspect

__all__ = ["is_async", "is_for_caller"]


def is_async(function: object) -> bool:
    """Is it to be awaited on the loop? A plain function runs on a worker thread."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object with `async def __call__`
    )


def is_for_caller(error: BaseException) -> bool:
    """Must an exception out of a user's function end the task that called it?

    Only Ctrl-C and the cancellation of that very task. A function that waits for something that was cancelled, or calls
    `sys.exit()`, has failed and nothing more.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)
