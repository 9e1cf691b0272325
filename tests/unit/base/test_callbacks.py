from __future__ import annotations

import asyncio

import pytest

from rocketlake.base.callbacks import call, call_each


def test_one_that_raises_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []

    def broken(_value: int) -> None:
        raise KeyError("a mistake")

    call_each([heard.append, broken, heard.append], 7)
    assert heard == [7, 7]
    assert "callback test_one_that_raises_harms_no_other.<locals>.broken failed" in caplog.text


def test_those_called_may_change_the_list() -> None:
    heard: list[str] = []
    calls = [lambda: calls.clear(), lambda: heard.append("second")]
    call_each(calls)
    assert heard == ["second"]


async def test_a_cancelled_future_that_a_callback_looks_at_is_its_own_mistake() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    assert not call(future.result)
    assert call(lambda: None)
