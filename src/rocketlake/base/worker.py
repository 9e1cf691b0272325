"""Blocking calls on one named thread, their results back on the event loop.

Owns        the thread of a duty (flush, make files, delete files) and the way back to the loop.
Must not know   what the calls do.

Calls run one after the other in the order given, so a duty needs no lock. `InlineWorker` and `HandWorker` are the same
seam without a thread: simulations and tests decide when a blocking call ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol

from rocketlake.base.errors import InternalError

__all__ = ["HandWorker", "InlineWorker", "ThreadWorker", "Worker", "run_on"]

Call = Callable[[], Any]
Done = Callable[[Any, Exception | None], None]
_Job = tuple[Call, Done, asyncio.AbstractEventLoop]


class Worker(Protocol):
    """Runs calls off the loop; `done(result, error)` runs on the loop."""

    def submit(self, call: Call, done: Done) -> None: ...

    async def close(self) -> None:
        """Wait until everything submitted has run and its `done` was called; no submit after it."""


def _run(call: Call) -> tuple[Any, Exception | None]:
    try:
        return call(), None
    except Exception as error:  # `done` gets the error, and must look at it
        return None, error


async def run_on(worker: Worker, call: Call) -> Any:
    """Run `call` on the worker and wait for it; returns its result, or raises its error."""
    ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(result: Any, error: Exception | None) -> None:
        if ended.done():  # the caller was cancelled
            return
        if error is not None:
            ended.set_exception(error)
        else:
            ended.set_result(result)

    worker.submit(call, done)
    return await ended


class ThreadWorker:
    """One daemon thread named `name`, started by the first call."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def submit(self, call: Call, done: Done) -> None:
        """Queue `call`; must be called on the running loop, which `done` comes back to. InternalError once closed."""
        if self._is_closed:
            raise InternalError(f"the worker {self.name} is closed and takes no more work")
        self._submit(call, done)

    def _submit(self, call: Call, done: Done) -> None:
        self._jobs.put((call, done, asyncio.get_running_loop()))
        if self._thread is None:
            # A daemon, so that a disk that hangs for ever cannot keep a dying process from ending.
            self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, done, loop = job
            result, error = _run(call)
            if loop.is_closed():
                return
            loop.call_soon_threadsafe(done, result, error)

    async def close(self) -> None:
        """Let the queued calls finish, then end the thread."""
        self._is_closed = True
        if self._thread is None:
            return
        finished = asyncio.get_running_loop().create_future()
        self._submit(lambda: None, lambda _result, _error: finished.set_result(None))
        await finished
        self._jobs.put(None)
        self._thread.join()
        self._thread = None


class InlineWorker:
    """Runs each call, and its `done`, at once: for simulations that count steps, not time."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def submit(self, call: Call, done: Done) -> None:
        """Run both now."""
        done(*_run(call))

    async def close(self) -> None:
        """Returns at once: no call is ever pending."""


class HandWorker:
    """Holds the calls until a test runs them, so that the test can look at the moment in between."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.pending: deque[tuple[Call, Done]] = deque()
        self.ended: deque[Callable[[], None]] = deque()

    def submit(self, call: Call, done: Done) -> None:
        """Keep the call."""
        self.pending.append((call, done))

    def call_one(self) -> None:
        """Run the oldest call, but not its `done`."""
        call, done = self.pending.popleft()
        result, error = _run(call)
        self.ended.append(lambda: done(result, error))

    def report_one(self) -> None:
        """Run the `done` of the oldest call that has run."""
        self.ended.popleft()()

    def run_one(self) -> None:
        """Run the oldest call and its `done`."""
        self.call_one()
        self.report_one()

    def run_all(self) -> None:
        """Run until no call is pending, also the calls that a `done` submits."""
        while self.pending:
            self.run_one()

    async def close(self) -> None:
        """Run the pending calls."""
        self.run_all()
