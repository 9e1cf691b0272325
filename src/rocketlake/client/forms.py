"""`with`, `for` and `async for` on a client that has another form: refused, with the form that is right.

Owns        the refusals. Type checkers do not see them: to these a wrong form stays the error that it is.
Must not know   what clients do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rocketlake.base.errors import UsageError

__all__ = ["AsyncForms", "BlockingForms", "NoLoops"]


class AsyncForms:
    """An async client: it has no plain `with`."""

    _twins: ClassVar[str] = "rocketlake.client.sync"

    if not TYPE_CHECKING:

        def __enter__(self):
            name = type(self).__name__
            raise UsageError(
                f"{name} is async and has no plain `with`",
                hint=f"write `async with {name}(...)` in a coroutine, or take the blocking twin of {self._twins}",
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


class NoLoops:
    """A consumer that is read by calls, or by a loop of the other kind."""

    _read_by: ClassVar[str]

    if not TYPE_CHECKING:

        def __iter__(self):
            raise self._no_loop("for")

        def __aiter__(self):
            raise self._no_loop("async for")

        def _no_loop(self, form):
            return UsageError(f"{type(self).__name__} has no `{form}`", hint=f"write {self._read_by}")
