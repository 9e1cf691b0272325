"""One way to start, stop, name and supervise background tasks.

Owns        the asyncio tasks of a part, their names, their errors, waiting for them at stop.
Must not know   what the tasks do.

Invariant: no task outlives `stop()`; an error in a task is logged, never lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from rocketlake.base.logs import get_logger

__all__ = ["Service"]

log = get_logger(__name__)


class Service:
    """Base of everything with a start and a stop: `async with` does both.

    Subclasses call `super().start()` first and `super().stop()` last.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name or type(self).__name__
        self.is_running = False
        self.on_failure: Callable[[BaseException], None] | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def start(self) -> None:
        """Ready to spawn; starting twice does nothing."""
        self.is_running = True

    async def stop(self) -> None:
        """Cancel what was spawned and wait for it; stopping twice does nothing."""
        self.is_running = False
        # A task may stop its own service: it cannot wait for itself. A task may spawn while it ends: look again.
        own = asyncio.current_task()
        while tasks := [task for task in self._tasks if task is not own]:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for task in tasks:
                self._tasks.pop(task, None)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `coroutine` until it ends or the service stops; an error is logged and given to `on_failure`."""
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self.name}/{name}")
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.error("%s failed: %s", task.get_name(), error, exc_info=error)
            if self.on_failure is not None:
                self.on_failure(error)
