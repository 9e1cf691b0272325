"""A wall clock that is set back or forth costs no message: what is safe is a position in the log, not a time."""

from __future__ import annotations

import random

import pytest

from tests.unit.store.store_world import ROOT, World, bodies_of, put_ok

HOUR_MS = 3_600_000
WITHOUT_POSITION = bytes(20)
THOROUGH_MS = 8000


async def started(world, **settings):
    return await world.started(queue_flush_thorough_interval_ms=THOROUGH_MS, **settings)


def roll(store, files=2, queue_id=0):
    """Fill log files with messages of a busy queue; what was put."""
    wanted = len(store.log.list.files) + files
    put = []
    while len(store.log.list.files) < wanted:
        put.append(b"busy %d" % len(put) + b"." * 200)
        put_ok(store, put[-1], queue_id=queue_id)
    for _ in range(12):  # so many that none of the former files is in the newest tail
        put.append(b"busy %d" % len(put))
        put_ok(store, put[-1], queue_id=queue_id)
    return put


def forget_position(world):
    """The page as Apache's broker leaves it, or an older release of ours."""
    file = world.disk.open(ROOT / "checkpoint")
    file.pwrite(WITHOUT_POSITION, 40)
    file.sync()


@pytest.mark.parametrize("step_ms", [-30_000, -HOUR_MS, HOUR_MS])
@pytest.mark.parametrize("has_position", [True, False])
async def test_a_clock_that_is_set_before_a_roll_costs_no_message(
    world: World, step_ms: int, has_position: bool
) -> None:
    store = await started(world)
    busy = roll(store)
    await world.clock.run_for(THOROUGH_MS + 4000)  # the log has been synced, too
    quiet = [b"quiet %d" % number for number in range(5)]
    put_ok(store, *quiet, queue_id=1)
    world.clock.jump_wall(step_ms)
    busy += roll(store)
    await world.clock.run_for(1_000)
    await world.killed()
    if not has_position:
        forget_position(world)
    store = await started(world)
    assert bodies_of(store, queue_id=1) == quiet
    assert put_ok(store, b"next", queue_id=1)[0].queue_offset == len(quiet)
    assert bodies_of(store) == busy


async def test_a_position_behind_the_end_of_a_log_that_lost_its_end_is_none(world: World) -> None:
    """Queues are synced for records that the log then loses; what takes their place is not in a queue yet."""
    store = await started(world, flush_interval_ms=10**9)
    put_ok(store, *[b"%d" % number * 30 for number in range(40)])
    await world.clock.run_for(THOROUGH_MS + 1000)
    await world.power_cut()
    store = await started(world)
    assert store.max_physical_offset == 0
    put_ok(store, b"new", queue_id=1)
    await world.killed()
    assert bodies_of(await started(world), queue_id=1) == [b"new"]


async def test_a_kill_soon_after_a_thorough_round_walks_over_the_newest_file_only(world: World) -> None:
    store = await started(world)
    roll(store, files=5)
    await world.clock.run_for(THOROUGH_MS + 1000)
    put_ok(store, b"last", queue_id=1)
    first = store.log.list.files[-1].start
    await world.killed()
    store = await started(world)
    assert bodies_of(store, queue_id=1) == [b"last"]
    assert store.checkpoint.derived_offset == first


@pytest.mark.parametrize("seed", range(8))
async def test_seeded_steps_rolls_and_kills_lose_nothing(world: World, seed: int) -> None:
    rng = random.Random(seed)
    expected: dict[int, list[bytes]] = {queue: [] for queue in range(4)}
    for _life in range(6):
        store = await started(world)
        assert {queue: bodies_of(store, queue_id=queue) for queue in expected} == expected
        for _ in range(rng.randint(1, 12)):
            world.clock.jump_wall(rng.choice((0, 0, -1000, -30_000, -HOUR_MS, HOUR_MS, 30_000)))
            queue = rng.choice((0, 0, 0, 1, 2, 3))
            for _ in range(rng.choice((1, 2, 30))):
                expected[queue].append(b"%d" % rng.randrange(10**9) * rng.randint(1, 40))
                put_ok(store, expected[queue][-1], queue_id=queue)
            await world.clock.run_for(rng.choice((0, 0, 100, 1_000, THOROUGH_MS + 1000)))
        if rng.random() < 0.3:
            await store.stop()
            if rng.random() < 0.5:
                forget_position(world)
        await world.killed()
