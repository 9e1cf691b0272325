"""A name server without a controller, and a group under a controller elsewhere: who is believed to be the master."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.register import RegisterBrokerBody
from rocketlake.protocol.bodies.topic import TopicTable
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.namesrv import RegisterBrokerHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.replica_group import NAMESRV, ReplicaGroup

PLAIN, STRANGER = "10.0.0.2", "10.6.6.6"


class Beside(ReplicaGroup):
    """The group, with one more name server that has no controller."""

    def __init__(self) -> None:
        super().__init__(namesrv_addresses=(f"{NAMESRV}:9876", f"{PLAIN}:9876"))
        config = NameServerConfig(listen_host=PLAIN, kv_config_path=Path("/p/kv.json"))
        network = self.net.host(PLAIN)
        self.plain = NameServer(config, clock=self.clock, files=self.namesrv_files, network=network)

    @property
    def told(self) -> str:
        """The host of the master, as clients of that name server hear it."""
        known = self.plain.routes.broker_group("C", "b")
        return "" if known is None else known.addresses.get(0, "").partition(":")[0]

    async def claim(self, epoch: int) -> ResponseCode:
        """A stranger says that it is the master."""
        stranger = NetClient(clock=self.clock, network=self.net.host(STRANGER))
        header = RegisterBrokerHeader(
            broker_name="b", broker_addr=f"{STRANGER}:1", cluster_name="C", ha_server_addr="", broker_id=0
        )
        topics = TopicTable(data_version=DataVersionBody(state_version=epoch))
        command = Command.request(RequestCode.REGISTER_BROKER, header, RegisterBrokerBody(topics=topics).encode())
        asked = asyncio.ensure_future(stranger.invoke(f"{PLAIN}:9876", command))
        await self.run_through(asyncio.ensure_future(asyncio.wait({asked})))
        await stranger.close()
        return ResponseCode(asked.result().code)


@pytest.fixture
async def group() -> AsyncIterator[Beside]:
    group = Beside()
    await group.plain.start()
    await group.start()
    assert group.told == group.master
    yield group
    await group.stop()
    await group.run_through(asyncio.ensure_future(group.plain.stop()))


async def test_the_master_that_was_elected_takes_the_place_of_one_that_hangs(group: Beside) -> None:
    """The link of the old one stays open. It does not answer."""
    old = group.master
    group.crash(old, silent=True)
    await group.until(lambda: group.masters and old not in group.masters)
    await group.until(lambda: group.told == group.master, 2000)
    assert (await group.claim(1), group.told) == (ResponseCode.NO_PERMISSION, group.master)


async def test_a_master_that_hands_over_says_so_itself(group: Beside) -> None:
    old = group.master
    membership = group.brokers[old].membership
    assert membership is not None
    other = 2 if membership.member.standing.broker_id != 2 else 3
    await group.run_through(asyncio.ensure_future(membership._calls.elect(other, designated=True)))
    await group.until(lambda: group.masters and old not in group.masters)
    await group.until(lambda: group.told == group.master, 1000)


async def test_a_stranger_is_refused_while_the_master_answers(group: Beside) -> None:
    assert await group.claim(99) == ResponseCode.NO_PERMISSION
    assert group.told == group.master


async def test_without_a_newer_epoch_a_hanging_master_keeps_its_place(group: Beside) -> None:
    """Two masters of one name by mistake, or a stranger that knows nothing of the group."""
    old = group.master
    for host in group.hosts:
        group.crash(host, silent=True)
    assert [await group.claim(epoch) for epoch in (0, 1)] == [ResponseCode.NO_PERMISSION] * 2
    assert group.told == old
