"""The listener of the user: its signature and its answers.

Owns        ConsumeResult, the listener signature.
Must not know   queues, retries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from rocketlake.base.errors import error_line, one_line
from rocketlake.base.settings.arguments import check_kind, check_number
from rocketlake.client.consumer.rates import Rates
from rocketlake.client.user_functions import FunctionCall
from rocketlake.model.message import StoredMessage


@dataclass(frozen=True, slots=True)
class ConsumeResult:
    """The answer of a listener: how many of the first messages are done, and when the rest comes again.

    `done` -1 means all. `delay_level` 1..18 says when a failed message is delivered again; 0 lets the broker decide by
    the number of retries, -1 makes the message a dead letter at once. An orderly queue knows -1 only, and pauses for
    `suspend_ms`. `error` says why, on one line: a message that comes again, or is a dead letter, has it as property
    LAST_ERROR. An exception of a listener says it by itself.
    """

    done: int = -1
    delay_level: int | None = None
    suspend_ms: int | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        check_number("done", self.done, -1)
        if self.delay_level is not None:
            check_number("delay_level", self.delay_level, -1)
        if self.suspend_ms is not None:
            check_number("suspend_ms", self.suspend_ms)
        if self.error is not None:
            check_kind("error", self.error, str, hint="give its words: str(error)")

    SUCCESS: ClassVar[ConsumeResult]
    LATER: ClassVar[ConsumeResult]

    @classmethod
    def later(
        cls, *, delay_level: int | None = None, suspend_ms: int | None = None, error: str | None = None
    ) -> ConsumeResult:
        """Nothing is done: the whole batch comes again."""
        return cls(0, delay_level, suspend_ms, _line(error))

    @classmethod
    def partly(cls, done: int, *, delay_level: int | None = None, error: str | None = None) -> ConsumeResult:
        """The first `done` messages are done, the rest come again (not for orderly listeners)."""
        return cls(done, delay_level, None, _line(error))

    @classmethod
    def failed(cls, error: BaseException) -> ConsumeResult:
        """What an exception of the listener means: the whole batch comes again."""
        return cls(0, error=error_line(error))

    def count_done(self, batch_size: int) -> int:
        """Messages of a batch of this size that are done."""
        return batch_size if self.done < 0 else min(self.done, batch_size)


def _line(error: str | None) -> str | None:
    return one_line(error) if isinstance(error, str) else error


ConsumeResult.SUCCESS = ConsumeResult()
ConsumeResult.LATER = ConsumeResult(0)

Answer = ConsumeResult | None
Listener = Callable[[list[StoredMessage]], Answer | Awaitable[Answer]]


class ListenerCall(FunctionCall[list[StoredMessage], Answer]):
    """Calls a listener.

    Returning None means success (a Python function without `return` did its work); an exception means later.
    """

    def __init__(self, function: Listener, *, threads: int) -> None:
        super().__init__(function, threads=threads)
        self.rates = Rates()
        """Counted by who takes the answers (running.py), and by pulls."""

    async def __call__(self, messages: list[StoredMessage]) -> ConsumeResult:
        """The listener's answer. Raises the exception of the listener."""
        return self.result(await self.begin(messages))

    @staticmethod
    def result(answer: Answer) -> ConsumeResult:
        """The result for an answer of the listener. TypeError for an answer of another type."""
        if answer is None:
            return ConsumeResult.SUCCESS
        if not isinstance(answer, ConsumeResult):
            raise TypeError(f"a listener returns ConsumeResult or None, not {type(answer).__name__}")
        return answer
