"""A replica is cut back to its master, and becomes the master itself; it may die at any step."""

from __future__ import annotations

import random

import pytest

from rocketlake.base.disk.faulty import FaultyFiles
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.base.worker import InlineWorker
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.epochs.history import Epoch, EpochHistory, agreed_end
from rocketlake.replication.epochs.kept import FILE_NAME, KeptEpochs
from rocketlake.replication.epochs.promotion import Promotion
from rocketlake.replication.epochs.truncation import Truncation
from rocketlake.store.durability import Demands, Stage
from rocketlake.store.message_store import MessageStore
from tests.unit.store.store_world import ROOT, World, bodies_of, put_ok
from tests.unit.store.test_cut import Death, Killed, contents, feed, fill

REPLICA = Demands(reads=(Stage.CONFIRMED,))


async def opened(world: World) -> tuple[MessageStore, KeptEpochs]:
    """The store and the epochs of a replica, as its broker starts them."""
    store = world.store(queue_flush_thorough_interval_ms=1000, flush_thorough_interval_ms=1000)
    store.durability.demand(REPLICA)
    await store.start()
    epochs = KeptEpochs(ROOT / FILE_NAME, world.files, InlineWorker())
    epochs.load()
    await Truncation(store, epochs).fit()
    return store, epochs


async def replica(world: World) -> tuple[MessageStore, KeptEpochs, list[int]]:
    """It led epoch 1 with ten records, follows epoch 2 with ten, epoch 3 with none, epoch 4 with ten more."""
    other = World()
    master = await other.started()
    offsets = fill(master, "a", 30)
    store, epochs = await opened(world)
    for number, record in ((1, 0), (2, 10), (3, 20), (4, 20)):
        await epochs.follow(number, offsets[record])  # type: ignore[arg-type]
    feed(store, master, 0)
    store.durability.advance(Stage.CONFIRMED, offsets[12])  # type: ignore[arg-type]
    await world.clock.run_for(2000)
    await other.killed()
    return store, epochs, offsets


def history(*entries: tuple[int, int]) -> EpochHistory:
    return EpochHistory(Epoch(*entry) for entry in entries)  # type: ignore[arg-type]


# -- truncation --------------------------------------------------------------------------------------------------------


async def test_epochs_go_with_their_bytes_and_those_without_bytes_too(world: World) -> None:
    store, epochs, offsets = await replica(world)
    truncation = Truncation(store, epochs)
    assert len(epochs.history.epochs) == 4
    await truncation.to(offsets[20])  # type: ignore[arg-type]
    assert (store.max_physical_offset, epochs.history) == (offsets[20], history((1, 0), (2, offsets[10])))
    await epochs.follow(7, offsets[20])  # type: ignore[arg-type]
    await truncation.to(offsets[20])  # type: ignore[arg-type]
    assert epochs.history.last == (2, offsets[10])  # the log ends there, but the epoch is none of the master's


async def test_what_is_confirmed_is_not_cut(world: World) -> None:
    store, epochs, offsets = await replica(world)
    with pytest.raises(StoreError, match=f"what lies before {offsets[12]} is confirmed"):
        await Truncation(store, epochs).to(offsets[11])  # type: ignore[arg-type]
    assert (len(epochs.history.epochs), store.writable) == (4, True)
    with pytest.raises(StoreError, match="no sound record starts there"):
        await Truncation(store, epochs).to(offsets[14] + 1)  # type: ignore[arg-type]


async def test_a_log_that_shares_no_byte_loses_all_that_it_holds(world: World) -> None:
    store, epochs, _offsets = await replica(world)
    store.durability.set_back(PhysicalOffset(0))
    await Truncation(store, epochs).to(PhysicalOffset(0))
    assert (store.max_physical_offset, epochs.history) == (0, EpochHistory())


async def damaged_replica(world: World, number: int) -> tuple[MessageStore, KeptEpochs, list[int], int]:
    """The disk has lost that record since it was synced; found by the last start but one. Also the end of the log."""
    _store, _epochs, offsets = await replica(world)
    await world.killed()
    store, epochs = await opened(world)
    end = store.max_physical_offset
    store.durability.advance(Stage.CONFIRMED, offsets[25])  # type: ignore[arg-type]
    await world.clock.run_for(2000)
    mapped = store.log.list.find(offsets[number])  # type: ignore[arg-type]
    assert mapped is not None
    mapped.file.pwrite(b"x", offsets[number] - mapped.start)
    await world.killed()
    await opened(world)
    await world.killed()
    store, epochs = await opened(world)
    assert store.damaged_from == offsets[number]
    return store, epochs, offsets, end


async def test_a_damaged_log_is_cut_at_the_damage_if_the_master_has_all_that_is_confirmed(world: World) -> None:
    store, epochs, offsets, end = await damaged_replica(world, 18)
    assert store.max_physical_offset == end
    with pytest.raises(StoreError, match=f"what lies before {offsets[25]} is confirmed"):
        await Truncation(store, epochs).to(offsets[24])  # type: ignore[arg-type]
    assert store.max_physical_offset == end
    await Truncation(store, epochs).to(offsets[27])  # type: ignore[arg-type]
    assert (store.max_physical_offset, store.damaged_from) == (offsets[18], None)
    assert epochs.history == history((1, 0), (2, offsets[10]))
    assert store.durability.confirmed.value == offsets[18]
    await world.killed()
    store, epochs = await opened(world)
    assert (store.max_physical_offset, store.damaged_from) == (offsets[18], None)
    assert bodies_of(store)[-1:] == [b"a16"]


@pytest.mark.parametrize("leads", [False, True])
async def test_a_log_that_lost_its_end_is_sound_when_a_master_agrees_or_an_epoch_begins_there(
    world: World, leads: bool
) -> None:
    store, epochs, offsets, _end = await damaged_replica(world, 29)
    assert store.max_physical_offset == offsets[29]
    if leads:
        with pytest.raises(StoreError, match="may have lost the end of its log"):
            await Promotion(store, epochs, world.clock).become_master(4)
        await Promotion(store, epochs, world.clock).become_master(5)
    else:
        await Truncation(store, epochs).to(offsets[29])  # type: ignore[arg-type]
    assert store.damaged_from is None
    await world.killed()
    store, _epochs = await opened(world)
    assert store.damaged_from is None


async def truncate_and_die(step: int, *, power: bool) -> bool:
    """Truncation with a death before that step of the disk, then a start and the handshake again. False: alive."""
    world = World()
    store, epochs, offsets = await replica(world)
    masters, masters_end = history((1, 0), (2, offsets[10]), (5, offsets[15])), offsets[17]
    before, death = contents(store), Death(step)
    world.files = FaultyFiles(world.disk, death)
    await world.killed()
    store, epochs = await opened(world)
    death.is_near, died = True, False
    try:
        await Truncation(store, epochs).to(offsets[15])  # type: ignore[arg-type]
    except Killed:
        died = True
    death.is_near = False
    await world.killed()
    if power:
        world.disk = world.disk.power_cut(random.Random(step))
        world.files = FaultyFiles(world.disk)
    store, epochs = await opened(world)
    end, known = store.max_physical_offset, epochs.history
    assert end >= offsets[15], death.steps
    # No byte counts as one of another epoch, whatever is left of log and epochs.
    for record in range(30):
        if offsets[record] < end:
            expected = 1 if record < 10 else 2 if record < 20 else 4
            assert known.number_at(offsets[record]) == expected, death.steps  # type: ignore[arg-type]
    point = agreed_end(known, end, masters, masters_end)  # type: ignore[arg-type]
    assert point == offsets[15], death.steps
    await Truncation(store, epochs).to(point)
    assert (store.max_physical_offset, epochs.history) == (offsets[15], history((1, 0), (2, offsets[10]))), death.steps
    assert contents(store) == before
    await world.killed()
    return died


@pytest.mark.parametrize("power", [False, True])
async def test_a_crash_at_any_step_brings_no_record_back_and_mislabels_none(power: bool) -> None:
    step = 0
    while await truncate_and_die(step, power=power):
        step += 1
    assert step > 20


# -- promotion ---------------------------------------------------------------------------------------------------------


async def test_a_new_master_begins_its_epoch_at_its_end_and_numbers_go_on(world: World) -> None:
    store, epochs, _offsets = await replica(world)
    end = store.max_physical_offset
    assert await Promotion(store, epochs, world.clock).become_master(6) == end
    assert epochs.history.last == (6, end)
    assert store.dispatched_offset == store.durability.confirmed.value
    (first,) = put_ok(store, b"new")
    assert (first.queue_offset, first.physical_offset) == (15, end)
    assert await Promotion(store, epochs, world.clock).become_master(8) == first.next_offset
    store.durability.advance(Stage.CONFIRMED, first.next_offset)
    await world.clock.settle()
    assert bodies_of(store)[-1] == b"new"
    with pytest.raises(UsageError, match="knows of epoch 8 and cannot lead in 7"):
        await Promotion(store, epochs, world.clock).become_master(7)
    await world.power_cut()
    _store, epochs = await opened(world)
    assert epochs.history.number_at(end) == 6


async def test_a_master_that_comes_back_goes_on_in_its_epoch_unless_its_log_lost_its_end(world: World) -> None:
    store, epochs, _offsets = await replica(world)
    start = await Promotion(store, epochs, world.clock).become_master(6)
    end = put_ok(store, b"new")[0].next_offset
    await world.killed()
    store, epochs = await opened(world)
    assert await Promotion(store, epochs, world.clock).become_master(6) == end
    assert epochs.history.last == (6, start)
    with pytest.raises(StoreError, match="may have lost the end of its log"):
        await Promotion(store, epochs, world.clock).become_master(6, is_log_whole=False)
    await Promotion(store, epochs, world.clock).become_master(7, is_log_whole=False)
    assert epochs.history.last == (7, end)


async def test_a_replica_with_a_damaged_record_does_not_become_the_master(world: World) -> None:
    store, epochs, offsets = await replica(world)
    mapped = store.log.list.find(offsets[25])  # type: ignore[arg-type]
    assert mapped is not None
    mapped.file.pwrite(b"x", bytes(mapped.view).index(b"a25"))
    before = epochs.history
    with pytest.raises(StoreError, match=f"the record at {offsets[25]} of the log is damaged"):
        await Promotion(store, epochs, world.clock).become_master(6)
    assert (epochs.history, store.max_physical_offset > offsets[25]) == (before, True)


async def test_the_first_epoch_of_all_begins_where_the_log_does(world: World) -> None:
    store, epochs = await opened(world)
    fill(store, "a", 3)
    await Promotion(store, epochs, world.clock).become_master(1)
    assert epochs.history == history((1, 0))
