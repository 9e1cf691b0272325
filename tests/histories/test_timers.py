"""Histories of messages for a time, by seed."""

from __future__ import annotations

import pytest

from tests.histories.timer_history import TimerHistory
from tests.seeds import seeds

EACH = 5


@pytest.mark.parametrize("first", [245762, *seeds("timers", short=2 * EACH, whole=20 * EACH, each=EACH)])
async def test_each_message_comes_once_and_none_before_its_time(first: int) -> None:
    for seed in range(first, first + EACH):
        history = TimerHistory(seed)
        await history.run()
        assert history.count > 0
