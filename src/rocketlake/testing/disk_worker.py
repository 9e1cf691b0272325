"""A worker of a simulated broker: its blocking calls take time on the virtual clock, and no thread.

Owns        the line of submitted calls, the time before and after each of them.
Must not know   what a call does, how slow the disk is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from rocketlake.base.clock import Clock
from rocketlake.base.worker import Call, Done

__all__ = ["DiskWorker"]


class DiskWorker:
    """Runs blocking calls one after the other; each takes some time before and after it reaches the disk."""

    def __init__(self, name: str, clock: Clock, step_seconds: Callable[[], float]) -> None:
        self.name = name
        self._clock = clock
        self._step_seconds = step_seconds
        self._jobs: deque[tuple[Call, Done]] = deque()
        self._is_busy = False

    def submit(self, call: Call, done: Done) -> None:
        """See Worker.submit."""
        self._jobs.append((call, done))
        self._next()

    def _next(self) -> None:
        if self._jobs and not self._is_busy:
            self._is_busy = True
            self._later(self._run)

    def _run(self) -> None:
        result, problem = None, None
        try:
            result = self._jobs[0][0]()
        except Exception as error:  # given to `done`, as ThreadWorker does
            problem = error
        self._later(self._end, result, problem)

    def _end(self, result: object, problem: Exception | None) -> None:
        _, done = self._jobs.popleft()
        self._is_busy = False
        try:
            done(result, problem)
        finally:
            self._next()

    def _later(self, step: Callable[..., object], *arguments: object) -> None:
        asyncio.get_running_loop().call_later(self._step_seconds(), step, *arguments)

    async def close(self) -> None:
        """Wait for what was submitted."""
        while self._jobs or self._is_busy:
            await self._clock.sleep(0.01)
