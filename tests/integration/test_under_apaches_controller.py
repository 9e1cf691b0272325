"""Our brokers under a controller that decides as Apache's: what it does not know of costs an election, no message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.apache_controller import ApacheController
from tests.replica_group import ReplicaGroup

CONTROLLER = "10.0.0.2"


class Group(ReplicaGroup):
    """Two brokers; the controller is at an address of its own."""

    def __init__(self) -> None:
        super().__init__(2, controller_addresses=(f"{CONTROLLER}:9878",), min_in_sync_replicas=1)
        self.controller = ApacheController(self.clock, self.net.host(CONTROLLER), CONTROLLER)

    async def start(self) -> None:
        await self.controller.server.start()
        await super().start()

    async def stop(self) -> None:
        await super().stop()
        await self.run_through(asyncio.ensure_future(self.controller.server.stop()))

    def is_stuck(self, host: str) -> bool:
        membership = self.brokers[host].membership
        assert membership is not None
        return membership.member.standing.is_stuck


@pytest.fixture
async def group() -> AsyncIterator[Group]:
    group = Group()
    await group.start()
    yield group
    await group.stop()


async def test_a_master_behind_a_power_cut_gives_up_its_epoch(group: Group) -> None:
    """Its machine and that of the controller lost power: the controller names it the master again, in its epoch."""
    old = group.master
    sent = [b"%d" % number for number in range(5)]
    for body in sent:
        assert await group.send(body) == 0
    group.controller.forget_links()
    group.crash(old)
    await group.begin_again(old, power_cut=True)
    assert await group.send_until_taken(b"next") < 5000
    assert group.master != old
    await group.until(lambda: group.in_step == {1, 2})
    await group.send(b"last")
    await group.clock.run_for(1000)
    assert [group.bodies(host) for host in group.hosts] == [[*sent, b"next", b"last"]] * 2


async def test_alone_in_the_set_it_gets_a_new_epoch(group: Group) -> None:
    old = group.master
    group.crash(next(host for host in group.hosts if host != old))
    await group.until(lambda: group.controller.in_sync == {1})
    group.controller.forget_links()
    group.crash(old)
    await group.begin_again(old, power_cut=True)
    assert await group.send_until_taken(b"next") < 5000
    assert (group.master, group.controller.epoch) == (old, 3)


async def test_a_second_start_does_not_forget_the_power_cut(group: Group) -> None:
    """Apache's controller has not recorded it. One that misses the silence hears of it again."""
    old = group.master
    group.crash(next(host for host in group.hosts if host != old))
    await group.until(lambda: group.controller.in_sync == {1})
    group.controller.is_deaf = True
    for power_cut in (True, False):
        group.controller.forget_links()
        group.crash(old)
        await group.begin_again(old, power_cut=power_cut)
        await group.until(lambda: group.is_stuck(old))
    assert group.controller.epoch == 1
    group.controller.is_deaf = False
    await group.send_until_taken(b"next", 30_000)
    assert group.controller.epoch == 3


@pytest.mark.long
async def test_a_join_without_an_answer_whose_joiner_died_ends_with_the_epoch(group: Group) -> None:
    joiner = next(host for host in group.hosts if host != group.master)
    group.crash(joiner)
    await group.until(lambda: group.in_step == {1})
    group.controller.swallows = 1
    await group.begin_again(joiner)
    await group.until(lambda: group.controller.swallows == 0)
    group.crash(joiner)
    assert await group.send_until_taken(b"next") < 8000
    assert group.controller.in_sync == {1}
    await group.begin_again(joiner)
    await group.until(lambda: group.in_step == {1, 2})
