"""A stop takes no longer than it may, and logs the work that it leaves to the next start."""

from __future__ import annotations

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.store.results import PutMessage
from tests.unit.store.store_world import ROOT, World

QUEUES = 100


class TickingClock(ManualClock):
    """Time passes with each look at it."""

    ticks = 0

    def monotonic(self) -> float:
        self.ticks += 1
        return super().monotonic() + self.ticks * 0.001


@pytest.mark.parametrize(("stop_flush_ms", "is_clean"), [(1, False), (30_000, True)])
async def test_a_stop_out_of_time_leaves_the_queues_to_the_next_start(
    stop_flush_ms: int, is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.clock = TickingClock()
    store = await world.started(stop_flush_ms=stop_flush_ms)
    for queue_id in range(QUEUES):
        assert store.put(PutMessage("T", queue_id, b"one", b"")).status.is_stored
    await store.stop()
    assert world.disk.exists(ROOT / "abort") is not is_clean
    said = [record.getMessage() for record in caplog.records if "not on disk after" in record.getMessage()]
    assert len(said) == (0 if is_clean else 1)
    assert is_clean or "stopFlushMs" in said[0]

    store = await world.started()
    assert [store.max_offset("T", queue_id) for queue_id in range(QUEUES)] == [1] * QUEUES
    await store.stop()
    assert not world.disk.exists(ROOT / "abort")
