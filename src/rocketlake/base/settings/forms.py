"""`with` on an async client, `async with` on a blocking one: refused, with the form that is right.

Owns        the refusals. Type checkers do not see them: to these a wrong form stays the error that it is.
Must not know   what clients do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rocketlake.base.errors import UsageError

__all__ = ["AsyncForms", "BlockingForms"]


class AsyncForms:
    """An async client: it has no plain `with`."""

    _twins: ClassVar[str] = "rocketlake.client.sync"
    """Where the blocking twin is; empty without one."""

    if not TYPE_CHECKING:

        def __enter__(self):
            name = type(self).__name__
            twin = f", or take the blocking twin of {self._twins}" if self._twins else ""
            raise UsageError(
                f"{name} is async and has no plain `with`",
                hint=f"write `async with {name}(...)` in a coroutine{twin}",
            )

        def __exit__(self, *_):
            """Python looks for it before it calls `__enter__`."""


class BlockingForms:
    """A blocking client: it has no `async with`."""

    if not TYPE_CHECKING:

        def __aenter__(self):
            name = type(self).__name__
            raise UsageError(
                f"{name} is a blocking client and has no `async with`",
                hint=f"write `with {name}(...)`, or take the async client of this name",
            )

        def __aexit__(self, *_):
            """Python looks for it before it calls `__aenter__`."""
