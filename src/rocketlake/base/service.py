"""One way to start, stop, name and supervise background tasks.

Owns        the asyncio tasks of a part, their names, their errors, waiting for them at stop; the tree of parts.
Must not know   what the tasks do.

Invariant: no task outlives `stop()`; an error in a task is logged, never lost.
Invariant: a duty ends with its service only. An error in one of its rounds is logged, and the next round comes after
a pause. This is the only module with endless loops and the only one that makes tasks (tests/tidy hold it).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.errors import LinkError, RemoteError
from rocketlake.base.health import Health
from rocketlake.base.logs import RareWarnings, get_logger

__all__ = ["Duty", "Service", "stop_each"]

log = get_logger(__name__)

_PAUSE_SECONDS_FIRST = 0.1
_PAUSE_SECONDS_MAX = 10.0
_RED_AFTER = 3
"""Failed rounds in a row that turn the health red."""
_SAY_SECONDS = 60.0
"""The log repeats after this long that a duty still fails."""

_T = TypeVar("_T")


class Duty:
    """Work that a service does in rounds, until it stops."""

    __slots__ = ("failures", "name", "pause_seconds_max", "rounds", "run")

    def __init__(self, name: str, run: Callable[[], Awaitable[object]], pause_seconds_max: float) -> None:
        self.name = name
        self.run = run
        """One round."""
        self.pause_seconds_max = pause_seconds_max
        """The longest pause behind a round that failed."""
        self.rounds = 0
        """Rounds that ended well."""
        self.failures = 0
        """Rounds that failed since the last one that ended well."""


class Service:
    """Base of everything with a start and a stop: `async with` does both.

    Subclasses call `super().start()` first and `super().stop()` last.
    """

    def __init__(self, name: str = "", clock: Clock | None = None) -> None:
        """`clock` times the duties."""
        self.name = name or type(self).__name__
        self.is_running = False
        self.health = Health()
        self.parts: list[Service] = []
        self.duties: dict[str, Duty] = {}
        self._clock: Clock = clock or SystemClock()
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._failing = RareWarnings(log, interval_seconds=_SAY_SECONDS, clock=self._clock)

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

    # -- a server is a tree of services --------------------------------------------------------------------------------

    def adopt(self, *parts: Service) -> None:
        """Make these parts of this service: they share its health. The subclass starts and stops them."""
        for part in parts:
            self.parts.append(part)
            part.share(self.health)

    def share(self, health: Health) -> None:
        """Report the troubles of this service and its parts to `health`."""
        self.health = health
        for part in self.parts:
            part.share(health)

    def services(self) -> Iterator[Service]:
        """This service, its parts, their parts."""
        yield self
        for part in self.parts:
            yield from part.services()

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def every(self, name: str, seconds: float | Callable[[], float], call: Callable[[], object]) -> asyncio.Task[None]:
        """Call `call` every so many seconds, for the first time after the first of them; it may return a coroutine."""
        interval = seconds if callable(seconds) else lambda: seconds

        async def run() -> None:
            await self._clock.sleep(interval())
            result = call()
            if inspect.isawaitable(result):
                await result

        return self.keep(name, run)

    def keep(
        self, name: str, run: Callable[[], Awaitable[object]], *, pause_seconds_max: float = _PAUSE_SECONDS_MAX
    ) -> asyncio.Task[None]:
        """Await `run()` again and again until the service stops or the task is cancelled."""
        duty = self.duties[name] = Duty(name, run, pause_seconds_max)
        return self.spawn(name, self._keep(duty))

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Run `coroutine` until it ends or the service stops; an error is logged."""
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self.name}/{name}")
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    async def _keep(self, duty: Duty) -> None:
        try:
            while True:
                pause = 0.0  # a round that did not wait must not keep the loop to itself
                try:
                    await duty.run()
                except asyncio.CancelledError as error:
                    if _is_being_cancelled():
                        raise
                    pause = self._round_failed(duty, error)  # a future it awaited was cancelled, not the duty
                except Exception as error:
                    pause = self._round_failed(duty, error)
                else:
                    self._round_ended(duty)
                await self._clock.sleep(pause)
        finally:
            if self.duties.get(duty.name) is duty:
                del self.duties[duty.name]
            self.health.ended(f"{self.name}/{duty.name}")

    def _round_ended(self, duty: Duty) -> None:
        duty.rounds += 1
        if duty.failures:
            duty.failures = 0
            self.health.set(f"{self.name}/{duty.name}", "")

    def _round_failed(self, duty: Duty, error: BaseException) -> float:
        """Log the failure; returns the pause before the next round."""
        duty.failures += 1
        pause = min(_PAUSE_SECONDS_FIRST * (1 << min(duty.failures - 1, 16)), duty.pause_seconds_max)
        name = f"{self.name}/{duty.name}"
        if isinstance(error, LinkError | RemoteError):  # of a peer, which may have stopped in order
            self._failing.warn(name, "%s waits for a peer, it is tried again in %.1f s: %s", name, pause, error)
        else:
            self._failing.error(name, error, "%s failed, it is tried again in %.1f s: %r", name, pause, error)
        if duty.failures >= _RED_AFTER:
            self.health.set(name, f"fails again and again, last with {error!r}")
        return pause

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            if self.is_running and not task.cancelling():
                log.error("%s ended: a future that it awaited was cancelled", task.get_name())
            return
        error = task.exception()
        if error is not None:
            log.error("%s failed: %s", task.get_name(), error, exc_info=error)


async def stop_each(*stops: Callable[[], object]) -> None:
    """Call one after the other; await a coroutine. If one raises, the error is logged and the next one is called."""
    cancelled: asyncio.CancelledError | None = None
    for stop in stops:
        try:
            result = stop()
            if inspect.isawaitable(result):
                await result
        except asyncio.CancelledError as error:
            cancelled = error  # the stop was cancelled; all parts are stopped all the same
        except Exception:
            part = getattr(stop, "__self__", stop)
            log.exception("%s could not be stopped cleanly, the others are", getattr(part, "name", None) or part)
    if cancelled is not None:
        raise cancelled


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
