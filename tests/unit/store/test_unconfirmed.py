"""A replica's records that are not confirmed: kept, numbered, read by nobody, also after a start and a crash in it."""

from __future__ import annotations

import random

import pytest

from rocketlake.base.disk.faulty import FaultyFiles
from rocketlake.store.audit import audit_store
from rocketlake.store.durability import Demands, Stage
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetStatus
from tests.unit.store.store_world import ROOT, World, bodies_of, put_ok
from tests.unit.store.test_cut import Death, Killed, contents, feed, fill, key_hits

REPLICA = Demands(reads=(Stage.CONFIRMED,))


async def started(world: World, demands: Demands = REPLICA) -> MessageStore:
    """A store whose role is known before it starts."""
    store = world.store(queue_flush_thorough_interval_ms=1000, flush_thorough_interval_ms=1000)
    store.durability.demand(demands)
    await store.start()
    return store


async def filled(world: World) -> tuple[MessageStore, list[int]]:
    """A replica with 24 records of its master, the first ten confirmed; their physical offsets."""
    other = World()
    master = await other.started()
    offsets = fill(master, "a", 24)
    store = await started(world)
    feed(store, master, 0)
    assert contents(store) == {0: [], 1: []}
    store.durability.advance(Stage.CONFIRMED, offsets[10])
    await world.clock.run_for(2000)
    await other.killed()
    return store, offsets


@pytest.mark.parametrize("end", ["stop", "kill", "power cut"])
async def test_what_is_not_confirmed_is_not_read_after_a_start_and_comes_when_it_is(world: World, end: str) -> None:
    store, _offsets = await filled(world)
    expected = contents(store)
    assert [len(bodies) for bodies in expected.values()] == [5, 5]
    if end == "stop":
        await store.stop()
    await (world.power_cut() if end == "power cut" else world.killed())
    store = await started(world)
    assert (contents(store), key_hits(store, "a9"), key_hits(store, "a10")) == (expected, [b"a9"], [])
    assert [store.next_offset("T", queue_id) for queue_id in (0, 1)] == [12, 12]
    store.durability.advance(Stage.CONFIRMED, store.max_physical_offset)
    assert [len(bodies) for bodies in contents(store).values()] == [12, 12]
    assert key_hits(store, "a23") == [b"a23"]
    await store.stop()
    assert audit_store(ROOT, files=world.disk, index_slots=11, index_entries=100) == []


async def test_a_new_master_goes_on_behind_records_that_nobody_has_read(world: World) -> None:
    store, _offsets = await filled(world)
    store.number_unread()
    assert [put_ok(store, b"b", queue_id=queue_id)[0].queue_offset for queue_id in (0, 1)] == [12, 12]
    await world.killed()
    store = await started(world)
    assert [put_ok(store, b"c", queue_id=queue_id)[0].queue_offset for queue_id in (0, 1)] == [13, 13]
    store.durability.advance(Stage.CONFIRMED, store.max_physical_offset)
    assert bodies_of(store)[-2:] == [b"b", b"c"]


async def test_a_consumer_that_has_read_more_than_a_start_knows_to_be_confirmed_waits(world: World) -> None:
    store, _offsets = await filled(world)
    for offset, status in ((5, GetStatus.OFFSET_OVERFLOW_ONE), (13, GetStatus.OFFSET_OVERFLOW_BADLY)):
        assert store.get("T", 0, offset, 32, 1 << 20).status is status  # type: ignore[arg-type]
    await world.killed()
    store = await started(world)
    for offset in (5, 7, 12):
        answer = store.get("T", 0, offset, 32, 1 << 20)  # type: ignore[arg-type]
        assert (answer.status, answer.next_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, offset)
    assert store.get("T", 0, 13, 32, 1 << 20).next_offset == 5  # type: ignore[arg-type]
    store.durability.advance(Stage.CONFIRMED, store.max_physical_offset)
    assert store.get("T", 0, 7, 32, 1 << 20).count > 0  # type: ignore[arg-type]


async def test_a_log_that_was_no_replicas_can_be_read_as_before(world: World) -> None:
    store = await world.started()
    fill(store, "a", 10)
    expected = contents(store)
    await world.killed()
    store = await started(world)
    assert (contents(store), store.durability.confirmed.value) == (expected, store.max_physical_offset)
    confirmed = store.max_physical_offset
    store.number_unread()
    fill(store, "b", 4)
    await world.killed()
    store = await started(world)  # killed before the checkpoint was written once more
    assert (contents(store), store.durability.confirmed.value) == (expected, confirmed)


async def test_a_store_that_leaves_its_group_reads_everything_and_says_nothing_of_replicas(world: World) -> None:
    store, _offsets = await filled(world)
    await world.killed()
    store = await started(world, Demands())
    assert [len(bodies) for bodies in contents(store).values()] == [12, 12]


async def test_a_checkpoint_that_does_not_say_what_is_confirmed_hides_all(world: World) -> None:
    await filled(world)
    await world.killed()
    page = bytearray(world.disk.read_bytes(ROOT / "checkpoint"))
    page[70] ^= 1
    world.disk.write_bytes(ROOT / "checkpoint", page)
    store = await started(world)
    assert (contents(store), store.durability.confirmed.value) == ({0: [], 1: []}, 0)
    store.durability.advance(Stage.CONFIRMED, store.max_physical_offset)
    assert [len(bodies) for bodies in contents(store).values()] == [12, 12]


async def hide_and_die(step: int, *, power: bool, clean: bool) -> bool:
    """A start that hides records and dies before that step of the disk; then a start without replicas. False: alive."""
    world = World()
    store, _offsets = await filled(world)
    expected = contents(store)
    if clean:
        await store.stop()
    await world.killed()
    death = Death(step)
    death.is_near, died = True, False
    world.files = FaultyFiles(world.disk, death)
    try:
        await started(world)
    except Killed:
        died = True
    death.is_near = False
    await world.killed()
    if power:
        world.disk = world.disk.power_cut(random.Random(step))
        world.files = FaultyFiles(world.disk)
    store = await started(world)
    assert contents(store) == expected, death.steps
    await world.killed()
    store = await started(world, Demands())
    assert [len(bodies) for bodies in contents(store).values()] == [12, 12], death.steps
    assert key_hits(store, "a23") == [b"a23"]
    await store.stop()
    assert audit_store(ROOT, files=world.disk, index_slots=11, index_entries=100) == [], death.steps
    await world.killed()
    return died


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("power", [False, True])
async def test_a_crash_at_any_step_of_such_a_start_loses_no_record(power: bool, clean: bool) -> None:
    step = 0
    while await hide_and_die(step, power=power, clean=clean):
        step += 1
    assert step > 10
