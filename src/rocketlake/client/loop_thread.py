"""The thread on which the blocking clients of a process run their async twins.

Owns        one event loop and its thread, shared by all blocking clients and ended with the last of them.
Must not know   clients.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, ClassVar, TypeVar

from rocketlake.base.errors import UsageError
from rocketlake.base.logs import get_logger

__all__ = ["LoopThread"]

log = get_logger(__name__)
CALL_END_SECONDS = 1.0
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
