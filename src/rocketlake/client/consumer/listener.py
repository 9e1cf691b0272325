"""The listener of the user: its signature and its answers.

Owns        ConsumeResult, the listener signature, running plain functions on worker threads.
Must not know   queues, retries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, cast

from rocketlake.client.user_functions import is_async
from rocketlake.model.message import StoredMessage


@dataclass(frozen=True, slots=True)
class ConsumeResult:
    """The answer of a listener: how many of the first messages are done, and when the rest comes again.

    `done` -1 means all. `delay_level` 1..18 says when a failed message is delivered again; 0 lets the broker decide by
    the number of retries, -1 makes the message a dead letter at once. `suspend_ms` is the pause of an orderly queue.
    """

    done: int = -1
    delay_level: int | None = None
    suspend_ms: int | None = None

    SUCCESS: ClassVar[ConsumeResult]
    LATER: ClassVar[ConsumeResult]

    @classmethod
    def later(cls, *, delay_level: int | None = None, suspend_ms: int | None = None) -> ConsumeResult:
        """Nothing is done: the whole batch comes again."""
        return cls(0, delay_level, suspend_ms)

    @classmethod
    def partly(cls, done: int, *, delay_level: int | None = None) -> ConsumeResult:
        """The first `done` messages are done, the rest come again (not for orderly listeners)."""
        return cls(done, delay_level)

    def count_done(self, batch_size: int) -> int:
        """Messages of a batch of this size that are done."""
        return batch_size if self.done < 0 else min(self.done, batch_size)


ConsumeResult.SUCCESS = ConsumeResult()
ConsumeResult.LATER = ConsumeResult(0)

Answer = ConsumeResult | None
Listener = Callable[[list[StoredMessage]], Answer | Awaitable[Answer]]


class ListenerCall:
    """Calls a listener: `async def` on the loop, a plain function on one of `threads` worker threads.

    Returning None means success (a Python function without `return` did its work); an exception means later.
    """

    def __init__(self, listener: Listener, *, threads: int) -> None:
        self._listener = listener
        self._pool = (
            None if is_async(listener) else ThreadPoolExecutor(threads, thread_name_prefix="rocketlake-listener")
        )

    @property
    def ends_when_cancelled(self) -> bool:
        """True for a coroutine. A function on a thread runs on until it returns."""
        return self._pool is None

    async def __call__(self, messages: list[StoredMessage]) -> ConsumeResult:
        """The listener's answer. Raises the exception of the listener."""
        return self.result(await self.begin(messages))

    def begin(self, messages: list[StoredMessage]) -> Awaitable[Answer]:
        """Start the listener; the awaitable gives its answer, or raises its exception."""
        if self._pool is None:
            return cast("Awaitable[Answer]", self._listener(messages))
        loop = asyncio.get_running_loop()
        return cast("Awaitable[Answer]", loop.run_in_executor(self._pool, self._listener, messages))

    @staticmethod
    def result(answer: Answer) -> ConsumeResult:
        """The result for an answer of the listener. TypeError for an answer of another type."""
        if answer is None:
            return ConsumeResult.SUCCESS
        if not isinstance(answer, ConsumeResult):
            raise TypeError(f"a listener returns ConsumeResult or None, not {type(answer).__name__}")
        return answer

    def close(self) -> None:
        """Free the worker threads; a function still running finishes by itself."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
