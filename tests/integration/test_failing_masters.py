"""A master whose disk takes no more of the log gives its place to a replica in step, at once."""

from __future__ import annotations

import asyncio
import errno

import pytest

from rocketlake.base.disk.faulty import Fault, FaultPlan, FaultyFiles
from rocketlake.protocol.response_code import ResponseCode
from tests.replica_group import ReplicaGroup

OK = ResponseCode.SUCCESS


async def group_on_a_disk_that_can_fail() -> tuple[ReplicaGroup, FaultPlan]:
    """The disk is the master's."""
    group, plan = ReplicaGroup(), FaultPlan()
    master = group.hosts[0]
    group.files[master] = FaultyFiles(group.files[master], plan)
    group.brokers[master] = group.new_broker(master)
    await group.start()
    assert (group.master, await group.send(b"0")) == (master, OK)
    return group, plan


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
async def test_a_master_whose_writes_fail_gives_way(error: int) -> None:
    group, plan = await group_on_a_disk_that_can_fail()
    old = group.master
    await group.clock.run_for(2000)  # retention's look is not near
    plan.add(Fault("pwrite", "commitlog", error=error))
    assert await group.send_until_taken(b"1") < 1500
    assert group.masters != [old]
    await group.clock.run_for(1000)
    assert "write failed" in group.brokers[old].health.troubles["store/writes"].reason
    plan.clear()
    await group.until(lambda: group.in_step == {1, 2, 3})
    await group.send_until_taken(b"2")
    await group.until(lambda: group.bodies(old) == [b"0", b"1", b"2"])
    await group.clock.run_for(2000)
    assert "store/writes" not in group.brokers[old].health.troubles
    await group.stop()


async def test_a_master_that_has_led_well_since_gives_way_again() -> None:
    group, plan = await group_on_a_disk_that_can_fail()
    old = group.master
    for number in range(2):
        plan.add(Fault("pwrite", "commitlog", error=errno.EIO))
        assert await group.send_until_taken(b"%d" % number) < 1500
        plan.clear()
        await group.send_until_taken(b"more")
        await group.until(lambda: group.in_step == {1, 2, 3})
        await group.clock.run_for(1000)
        back = group.brokers[group.master].membership
        assert back is not None
        await group.run_through(asyncio.ensure_future(back._calls.elect(1, designated=True)))
        await group.until(lambda: group.masters == [old] and group.in_step == {1, 2, 3})
        await group.clock.run_for(2000)
    await group.stop()


async def test_a_master_one_write_of_which_failed_stays() -> None:
    group, plan = await group_on_a_disk_that_can_fail()
    old, epoch = group.master, group.epoch(group.master)
    plan.add(Fault("pwrite", "commitlog", error=errno.EIO, times=1))
    assert await group.send(b"1") != OK
    await group.send_until_taken(b"2")
    await group.clock.run_for(3000)
    assert (group.masters, group.epoch(old)) == ([old], epoch)
    await group.stop()
