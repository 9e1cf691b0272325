"""Two operators take over from one master at once: one master comes of it, or none. Network and disks in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from rocketlake.admin.cluster import Cluster
from rocketlake.admin.migration.handover import Handover, Sides, find
from rocketlake.admin.migration.peer import Peer
from rocketlake.broker.broker import Broker
from rocketlake.protocol.response_code import ResponseCode
from tests.integration.test_takeover import Pair
from tests.replica_pair import MASTER, NAMESRV, SLAVE

OTHER = "10.0.0.4"


class Trio(Pair):
    """Two slaves of one master."""

    async def start(self) -> None:
        await super().start()
        self.other = self.new_broker(OTHER, 2)
        await self.other.start()
        await self.clock.run_for(3000)

    async def stop(self) -> None:
        await self.other.stop()
        await super().stop()

    async def command(self, new: str, kind: type[Peer] = Peer) -> Handover:
        """`kind`: of the old master."""
        rival = SLAVE if new == OTHER else OTHER
        old, *others = [
            kind(self.client, f"{MASTER}:10911"),
            *[Peer(self.client, f"{each}:10911") for each in (new, rival)],
        ]
        for peer in (old, *others):
            await self.of(peer.look())
        return Handover(Sides(old, others[0], 3, (others[1],)), self.said.append, self.clock)

    def brokers(self) -> dict[str, Broker]:
        return {MASTER: self.master, SLAVE: self.slave, OTHER: self.other}

    def masters(self) -> list[str]:
        return [host for host, broker in self.brokers().items() if broker.ground.role.is_master]


class ToldBySettings(Peer):
    """A master that is told its role as Apache's is: it asks nobody."""

    broker: Broker

    @property
    def is_ours(self) -> bool:
        return False

    async def change(self, settings: Mapping[str, str]) -> None:
        if settings.get("brokerId", "") == "0":
            await self.broker.become_master()
        elif "brokerId" in settings:
            await self.broker.become_slave(int(settings["brokerId"]))


@pytest.fixture
async def trio() -> AsyncIterator[Trio]:
    trio = Trio()
    await trio.start()
    yield trio
    await trio.stop()


@pytest.mark.parametrize("kind", [Peer, ToldBySettings])
@pytest.mark.parametrize("delay", [0, 0.02, 0.3])
async def test_two_takeovers_at_once_make_one_master(trio: Trio, delay: float, kind: type[Peer]) -> None:
    ToldBySettings.broker = trio.master
    assert await trio.send(MASTER) == ResponseCode.SUCCESS
    await trio.clock.run_for(1000)
    first, second = await trio.command(SLAVE, kind), await trio.command(OTHER, kind)

    async def later() -> None:
        await trio.clock.sleep(delay)
        await second.run()

    ends = await trio.of(asyncio.gather(first.run(), later(), return_exceptions=True), step_ms=10)
    assert len(trio.masters()) == 1, ends
    assert any(isinstance(end, Exception) for end in ends)
    answers = [await trio.send(host) for host in trio.brokers()]
    assert answers.count(ResponseCode.SUCCESS) == 1


async def test_a_command_that_finds_another_one_under_way_changes_nothing(trio: Trio) -> None:
    first, second = await trio.command(SLAVE), await trio.command(OTHER)
    ends = await trio.of(asyncio.gather(first.run(), second.run(), return_exceptions=True), step_ms=10)
    assert isinstance(ends[0], float)
    assert "is under way: this one has changed nothing" in str(ends[1])
    assert trio.masters() == [SLAVE]


async def test_a_repeated_takeover_finds_the_old_master_among_slaves_with_equal_logs(trio: Trio) -> None:
    assert await trio.send(MASTER) == ResponseCode.SUCCESS
    await trio.clock.run_for(1000)
    await trio.of(Peer(trio.client, f"{MASTER}:10911").change_role(3))  # then the command was cut off
    await trio.clock.run_for(1000)
    async with Cluster(f"{NAMESRV}:9876") as cluster:
        cluster.net, net = trio.client, cluster.net
        members = {1: f"{SLAVE}:10911", 2: f"{OTHER}:10911", 3: f"{MASTER}:10911"}

        async def listed(_name: str) -> dict[int, str]:
            return members

        cluster.members = listed  # type: ignore[method-assign, assignment]
        sides = await trio.of(find(cluster, "b", 2))
        cluster.net = net
    assert (sides.old.address, [each.address for each in sides.rivals]) == (f"{MASTER}:10911", [f"{SLAVE}:10911"])
    await trio.of(Handover(sides, trio.said.append, trio.clock).run())
    assert trio.masters() == [OTHER]
