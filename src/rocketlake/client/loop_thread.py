"""The thread on which the blocking clients of a process run their async twins, and what makes such a twin.

Owns        one event loop and its thread, shared by all blocking clients and ended with the last of them; start, stop
            and `with` of a blocking twin, the decorators that turn methods into waiting ones.
Must not know   single clients.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from rocketlake.base.errors import UsageError
from rocketlake.base.logs import get_logger
from rocketlake.base.settings.forms import BlockingForms

__all__ = ["AsyncClient", "Blocking", "LoopThread", "on_loop", "takes_what", "waiting"]

log = get_logger(__name__)
CALL_END_SECONDS = 1.0
P = ParamSpec("P")
T = TypeVar("T")


class LoopThread:
    """A thread that runs an event loop while blocking clients use it."""

    _shared: ClassVar[LoopThread | None] = None
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.users = 0
        self.pid = os.getpid()
        self._is_ending = False
        self.thread = threading.Thread(target=self._run, name="rocketlake-client", daemon=True)
        self.thread.start()

    @classmethod
    def join(cls) -> LoopThread:
        """The shared thread, started if need be."""
        with cls._guard:
            if cls._shared is None or cls._shared.pid != os.getpid() or not cls._shared.thread.is_alive():
                cls._shared = LoopThread()
            cls._shared.users += 1
            return cls._shared

    def leave(self) -> None:
        """Use the thread no more; the last user ends it."""
        with self._guard:
            self.users -= 1
            if self.users:
                return
            if LoopThread._shared is self:
                LoopThread._shared = None
        self._is_ending = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the loop and wait for its result here."""
        if threading.current_thread() is self.thread:
            coroutine.close()
            self.refuse_own_thread()
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result()
        except CancelledError:
            raise UsageError(
                "the call was cut off: another thread stopped its client",
                where=self.thread.name,
                hint="stop a client after its last call has returned",
            ) from None
        except BaseException:
            # Ctrl-C while waiting: the call must not go on after the caller has given it up.
            future.cancel()
            raise

    def refuse_own_thread(self) -> None:
        """Raises UsageError on the client's own thread, which would wait for itself."""
        if threading.current_thread() is self.thread:
            raise UsageError(
                "a blocking call inside an async listener or a callback",
                hint="use the async client there, or call it from another thread",
            )

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._is_ending:
                try:
                    self.loop.run_forever()
                except BaseException:
                    # `sys.exit()` in a callback or a hook must not end the clients of all other threads.
                    log.exception("a function of the user tried to end the client's thread; the thread goes on")
            self.loop.run_until_complete(self._end_calls())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()

    async def _end_calls(self) -> None:
        """End the calls for which other threads still wait; those threads get an error."""
        calls = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if calls:
            await asyncio.wait(calls, timeout=CALL_END_SECONDS)
            for task in calls:
                task.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


class AsyncClient(Protocol):
    """What has a twin."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


A = TypeVar("A", bound=AsyncClient)


class Blocking(BlockingForms, Generic[A]):
    """Start, stop, `with`, and the calls that run on the twin's loop."""

    def __init__(self, twin: A) -> None:
        self._twin = twin
        self._thread: LoopThread | None = None
        self._is_over = False

    def start(self) -> None:
        """Start the client."""
        if self._thread is not None:
            return
        self._thread = LoopThread.join()
        try:
            self._thread.run(self._twin.start())
        except BaseException:
            self._leave()
            raise

    def stop(self) -> None:
        """Stop the client; calls on their way are finished first."""
        if self._thread is not None:
            self._check_process()
            self._thread.refuse_own_thread()
            try:
                self._run(self._twin.stop())
            finally:
                self._is_over = True
                self._leave()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._check_process()
            self._thread.refuse_own_thread()
            try:
                self._run(self._twin.__aexit__(kind, error, trace))
            finally:
                self._is_over = True
                self._leave()

    def _leave(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.leave()

    def _check_process(self) -> None:
        if self._thread is not None and self._thread.pid != os.getpid():
            raise UsageError(
                "this client was made before fork() and cannot work in the child",
                hint="make a client of its own in each process",
            )

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            self._check_process()
            if self._thread is None:
                what, hint = "is not running", "call start(), or use `with`"
                if self._is_over:
                    what, hint = "was stopped", "make a new one: one that was stopped does not start again"
                raise UsageError(f"{type(self).__name__} {what}", hint=hint)
        except UsageError:
            coroutine.close()
            raise
        return self._thread.run(coroutine)

    def _call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a plain function of the twin on its loop (before start: here)."""
        if self._thread is None:
            return function(*args, **kwargs)

        async def call() -> T:
            return function(*args, **kwargs)

        return self._run(call())


def takes_what(make: Callable[P, A]) -> Callable[[Callable[..., None]], Callable[Concatenate[Blocking[A], P], None]]:
    """Makes an `__init__` that takes the arguments of the async client and holds the client made with them."""

    def decorate(_: Callable[..., None]) -> Callable[Concatenate[Blocking[A], P], None]:
        @functools.wraps(make.__init__)  # for help(): the arguments and their defaults
        def init(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> None:
            if kwargs.get("instance") is not None:
                raise UsageError("a blocking client has an instance of its own", hint="leave out instance=")
            Blocking.__init__(self, make(*args, **kwargs))

        return init

    return decorate


def waiting(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Blocking[A], P], T]:
    """The twin of an async method: runs it on the loop and waits for its result."""

    @functools.wraps(method)
    def call(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._twin, *args, **kwargs))

    return call


def on_loop(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[Blocking[A], P], T]:
    """The twin of a plain method: calls it on the loop, where all state of a client is touched."""

    @functools.wraps(method)
    def call(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._call(method, self._twin, *args, **kwargs)

    return call
