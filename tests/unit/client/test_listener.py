"""Listeners: plain and async functions, and what their answers mean."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.client.consumer.listener import Answer, ConsumeResult, ListenerCall
from rocketlake.client.consumer.push import PushConsumer
from rocketlake.model.message import StoredMessage

BATCH = [StoredMessage("T", b"1"), StoredMessage("T", b"2")]


@pytest.mark.parametrize(
    ("answer", "done"),
    [
        (ConsumeResult.SUCCESS, 2),
        (ConsumeResult.LATER, 0),
        (ConsumeResult.later(delay_level=3), 0),
        (ConsumeResult.partly(1), 1),
        (ConsumeResult.partly(9), 2),
    ],
)
def test_an_answer_says_how_many_are_done(answer: ConsumeResult, done: int) -> None:
    assert answer.count_done(2) == done


async def test_a_plain_function_runs_on_a_worker_thread_and_none_is_success() -> None:
    threads = []

    def listener(messages: list[StoredMessage]) -> None:
        threads.append(threading.current_thread())

    call = ListenerCall(listener, threads=1)
    try:
        assert await call(BATCH) == ConsumeResult.SUCCESS
    finally:
        call.close()
    assert threads[0] is not threading.current_thread()


async def test_an_async_function_runs_on_the_loop() -> None:
    async def listener(messages: list[StoredMessage]) -> Answer:
        assert threading.current_thread() is threading.main_thread()
        return ConsumeResult.LATER

    assert await ListenerCall(listener, threads=1)(BATCH) == ConsumeResult.LATER


async def test_an_object_with_an_async_call_is_an_async_listener() -> None:
    class Listener:
        async def __call__(self, messages: list[StoredMessage]) -> None:
            assert threading.current_thread() is threading.main_thread()

    assert await ListenerCall(Listener(), threads=1)(BATCH) == ConsumeResult.SUCCESS


async def test_an_answer_of_another_type_is_an_error_not_a_success() -> None:
    async def listener(messages: list[StoredMessage]) -> str:
        return "SUCCESS"

    with pytest.raises(TypeError, match="ConsumeResult"):
        await ListenerCall(listener, threads=1)(BATCH)  # type: ignore[arg-type]


@pytest.mark.parametrize("listener", [None, "work", 5])
def test_a_listener_that_cannot_be_called_is_refused(listener: Any) -> None:
    with pytest.raises(UsageError, match="listener is a function, not") as refused:
        PushConsumer("g", listener=listener)
    assert "(messages)" in refused.value.hint
