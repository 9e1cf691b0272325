"""A replica that is chosen as the master and cannot lead: its disk hangs, or is full. Another one takes the place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.replication.epochs.history import EpochHistory
from tests.replica_group import ReplicaGroup

OK = ResponseCode.SUCCESS


def fill(disk: MemoryFiles) -> None:
    disk.capacity = disk.used


def hang(group: ReplicaGroup, host: str, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """No change of this broker's epochs ends before the event: its disk hangs, its loop does not."""
    membership = group.brokers[host].membership
    assert membership is not None
    epochs, goes_on = membership._epochs, asyncio.Event()
    change = epochs._change

    async def slow(to: Callable[[EpochHistory], EpochHistory]) -> None:
        await goes_on.wait()
        await change(to)

    monkeypatch.setattr(epochs, "_change", slow)
    return goes_on


@pytest.mark.parametrize("copies_min", [1, 2])
async def test_a_replica_that_is_chosen_and_whose_disk_hangs_leaves_the_place(
    copies_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = ReplicaGroup(min_in_sync_replicas=copies_min)
    await group.start()
    old, chosen, well = group.hosts
    assert (group.master, await group.send(b"0")) == (old, OK)
    goes_on = hang(group, chosen, monkeypatch)
    group.crash(old)
    await group.until(lambda: group.masters == [well], 6000)
    await group.clock.run_for(10_000)
    assert "change of role" in group.brokers[chosen].health.troubles
    goes_on.set()
    await group.until(lambda: group.in_step == {2, 3})
    await group.send_until_taken(b"1")
    await group.clock.run_for(1000)
    assert group.bodies(chosen) == group.bodies(well) == [b"0", b"1"]
    assert "change of role" not in group.brokers[chosen].health.troubles
    await group.stop()


async def test_replicas_whose_disks_are_full_pass_the_place_on_until_one_has_room() -> None:
    group = ReplicaGroup(4, min_in_sync_replicas=2)
    await group.start()
    old, *full, well = group.hosts
    assert (group.master, await group.send(b"0")) == (old, OK)
    for host in full:
        fill(group.files[host])
    assert await group.send(b"1") == OK
    group.crash(old)
    await group.until(lambda: group.masters == [well], 10_000)
    for host in full:
        group.files[host].capacity = 1 << 40
    await group.send_until_taken(b"2", 30_000)
    assert group.bodies(well) == [b"0", b"1", b"2"]
    await group.stop()


async def test_a_replica_whose_disk_has_just_filled_leaves_the_place_also_where_one_copy_is_enough() -> None:
    """It acknowledges nothing alone before it leads, so the others are a choice until then, and not behind it."""
    group = ReplicaGroup(min_in_sync_replicas=1)
    await group.start()
    old, full, well = group.hosts
    assert (group.master, await group.send(b"0")) == (old, OK)
    fill(group.files[full])
    group.crash(old)
    await group.until(lambda: group.masters == [well], 10_000)
    await group.send_until_taken(b"1")
    assert "b" in (groups := group.namesrv._controlling.controller.decider.groups)  # type: ignore[union-attr]
    assert (groups["b"].min_in_sync, groups["b"].eligible) == (1, frozenset())
    await group.stop()


@pytest.mark.parametrize("copies_min", [1, 2])
async def test_a_replica_that_is_known_to_have_no_room_is_chosen_last(copies_min: int) -> None:
    """Nothing is sent meanwhile, so it is in step. With one copy it could not pass the place on, either."""
    group = ReplicaGroup(min_in_sync_replicas=copies_min)
    await group.start()
    old, full, well = group.hosts
    assert (group.master, await group.send(b"0")) == (old, OK)
    fill(group.files[full])
    await group.until(lambda: not group.brokers[full].store.writable, 12_000)
    await group.clock.run_for(1000)
    assert group.in_step == {1, 2, 3}
    group.crash(old)
    await group.until(lambda: group.masters != [old] and bool(group.masters), 3000)
    assert group.master == well
    await group.stop()


async def test_a_master_that_stops_leaves_its_place_to_a_replica_that_has_room() -> None:
    """Of two that have all, the one with the lower id has none. It never gets the place."""
    group = ReplicaGroup()
    await group.start()
    old, full, well = group.hosts
    assert (group.master, await group.send(b"0")) == (old, OK)
    fill(group.files[full])
    await group.until(lambda: not group.brokers[full].store.writable, 12_000)
    await group.clock.run_for(1000)
    assert group.in_step == {1, 2, 3}
    epoch = group.epoch(old)
    await group.run_through(asyncio.ensure_future(group.brokers[old].stop()))
    assert (group.masters, group.epoch(well)) == ([well], epoch + 1)
    await group.stop()
