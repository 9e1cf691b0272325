"""Listeners whose messages are acknowledged by hand, later and from anywhere, in place of a return value.

Owns        Delivery, the wait of a listener call for its deliveries, the time after which a delivery counts as failed.
Must not know   queues, offsets, retries: the answers are those of any listener (listener.py).

The call of the listener lasts until its messages are settled. So nothing else changes: what is not settled is in hand,
its offset is not committed, an ordered queue waits, `concurrency` bounds how many calls wait at once.
"""

from __future__ import annotations

from asyncio import to_thread, wrap_future
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from inspect import isawaitable

from rocketlake.base.clock import Clock, SystemClock
from rocketlake.base.settings.arguments import check_number
from rocketlake.client.consumer.listener import Answer, ConsumeResult, Listener, ListenerCall
from rocketlake.client.user_functions import check_function, is_async
from rocketlake.model.message import StoredMessage

__all__ = ["Delivery", "manual_ack"]

DeliveryFunction = Callable[["Delivery"], Answer | Awaitable[Answer]]


class Delivery:
    """One message, to be acknowledged once: by any task or thread, whenever its work is done."""

    __slots__ = ("_end", "message")

    def __init__(self, message: StoredMessage) -> None:
        self.message = message
        self._end: Future[ConsumeResult] = Future()

    def ack(self) -> bool:
        """The message is done. False if this comes too late: it was settled before, or its time is over."""
        return self._settle(ConsumeResult.SUCCESS)

    def nack(self, *, delay_level: int | None = None, suspend_ms: int | None = None, error: str | None = None) -> bool:
        """The message comes again, as after `ConsumeResult.later` of the same arguments. False if it comes too late."""
        return self._settle(ConsumeResult.later(delay_level=delay_level, suspend_ms=suspend_ms, error=error))

    def _settle(self, answer: ConsumeResult) -> bool:
        try:
            self._end.set_result(answer)
        except InvalidStateError:
            return False
        return True


def manual_ack(function: DeliveryFunction, *, within_ms: int = 60_000, clock: Clock | None = None) -> Listener:
    """A listener for `PushConsumer` that gives each message as a Delivery to `function`, `async def` or plain.

    A plain one runs on a thread and should return soon. The function may return before the message is done: the call
    waits for `delivery.ack()` or `delivery.nack()`. A message that is not settled `within_ms` after its
    function was called comes again. A ConsumeResult that the function returns, or an exception that it raises, counts
    at once.
    """
    check_function("function", function, takes="(delivery)")
    check_number("within_ms", within_ms, 1, means="so long may an ack take")
    clock = clock or SystemClock()
    is_plain = not is_async(function)
    late = ConsumeResult.later(error=f"not acknowledged within {within_ms} ms")

    async def listen(messages: list[StoredMessage]) -> ConsumeResult:
        deliveries = [Delivery(message) for message in messages]
        try:
            for delivery in deliveries:
                answer = await to_thread(function, delivery) if is_plain else function(delivery)
                if isawaitable(answer):
                    answer = await answer
                if answer is not None:
                    delivery._settle(ListenerCall.result(answer))
            until = clock.monotonic() + within_ms / 1000
            for delivery in deliveries:
                if not delivery._end.done():
                    await clock.wait(wrap_future(delivery._end), until - clock.monotonic())
            return _together(deliveries, late)
        finally:
            _end(deliveries)

    return listen


def _together(deliveries: Sequence[Delivery], late: ConsumeResult) -> ConsumeResult:
    """The answer for a batch: done up to the first message that is not. Of those behind it none counts as done."""
    for number, delivery in enumerate(deliveries):
        delivery._settle(late)
        answer = delivery._end.result()
        if answer.count_done(1) == 0:
            return ConsumeResult(number, answer.delay_level, answer.suspend_ms, answer.error)
    return ConsumeResult.SUCCESS


def _end(deliveries: Sequence[Delivery]) -> None:
    """From now on an ack comes too late."""
    for delivery in deliveries:
        delivery._end.cancel()
