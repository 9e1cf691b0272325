"""A stop takes no longer than it may, and logs the work that it leaves to the next start."""

from __future__ import annotations

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault
from rocketlake.store.results import PutMessage
from tests.unit.store.store_world import ROOT, World

QUEUES = 100
MANY = 300


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


async def test_many_queues_are_synced_together_and_survive_a_power_cut(world: World) -> None:
    store = await world.started()
    for queue_id in range(MANY):
        assert store.put(PutMessage("T", queue_id, b"one", b"")).status.is_stored
    world.files.plan.calls.clear()
    await store.stop()
    assert not world.disk.exists(ROOT / "abort")
    assert len([path for call, path in world.files.plan.calls if call in ("sync", "sync_dir")]) < 20
    await world.power_cut()
    store = await world.started()
    entries = [store.queue_entries("T", queue_id, 0, 2) for queue_id in range(MANY)]
    assert [len(found) for found in entries] == [1] * MANY


async def test_a_disk_that_cannot_sync_all_at_once_is_asked_for_each_queue(world: World) -> None:
    world.files.plan.add(Fault("sync_all"))
    store = await world.started()
    for queue_id in range(MANY):
        assert store.put(PutMessage("T", queue_id, b"one", b"")).status.is_stored
    await store.stop()
    assert not world.disk.exists(ROOT / "abort")
    await world.power_cut()
    store = await world.started()
    assert [store.max_offset("T", queue_id) for queue_id in range(MANY)] == [1] * MANY


async def test_a_stop_out_of_time_writes_no_more_entries(world: World) -> None:
    world.clock = TickingClock()
    store = await world.started(stop_flush_ms=1)
    for queue_id in range(MANY):
        assert store.put(PutMessage("T", queue_id, b"one", b"")).status.is_stored
    await store.stop()
    written = [path for call, path in world.files.plan.calls if call == "pwrite" and "consumequeue" in path.parts]
    assert len(written) < MANY // 2
