"""Telling the two kinds of functions that users give a client.

Owns        what counts as an async function.
Must not know   when they are called.
"""

from __future__ import annotations

import inspect

__all__ = ["is_async"]


def is_async(function: object) -> bool:
    """Is it to be awaited on the loop? A plain function runs on a worker thread."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object with `async def __call__`
    )
