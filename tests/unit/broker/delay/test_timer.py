"""The timer between its two duties: what enters before a tick is delivered."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from tests.histories.timer_history import Broker


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    clock = ManualClock()
    broker = Broker(MemoryFiles(clock=clock), clock)
    await broker.start()
    await clock.settle()
    yield broker
    await broker.stop()


def deliver(broker: Broker) -> list[str]:
    """Deliver what is due, without a turn for the duty that enters; the names in the topic."""
    while broker.timer.deliver_due() == 0.0:
        pass
    return sorted(message.body.decode() for message in broker.delivered())


async def test_a_recall_counts_though_its_tick_is_over_before_it_enters(broker: Broker) -> None:
    """It was acknowledged in time; then the loop was late, or the clock was set forward."""
    due = {"TIMER_DELIVER_MS": str(broker.clock.now_ms() + 3000)}
    for number in range(3):
        broker.send(f"m{number}", due)
    await broker.clock.settle()
    for number in range(600):  # more than one batch that enters
        broker.send(f"later{number}", {"TIMER_DELAY_MS": "60000"})
    broker.send("recall", {**due, "TIMER_DEL_UNIQKEY": "m1"})
    broker.clock.jump_wall(10_000)
    assert deliver(broker) == ["m0", "m2"]
