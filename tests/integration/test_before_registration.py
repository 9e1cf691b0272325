"""A broker whose controller has not registered it yet."""

from __future__ import annotations

from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.replicas import ExchangeHaHeader
from rocketlake.protocol.request_code import RequestCode
from tests.replica_group import NAMESRV, ReplicaGroup


async def test_it_follows_nobody() -> None:
    """A master tells all members of itself. One that does not know its id yet would be taken in under another one."""
    group = ReplicaGroup()
    await group.start()
    host = next(each for each in group.hosts if each != group.master)
    group.crash(host)
    await group.until(lambda: len(group.in_step) == 2)
    group.net.partition(host, NAMESRV)
    await group.begin_again(host)
    told = ExchangeHaHeader(master_address=f"{group.master}:10911", master_ha_address=f"{group.master}:10912")
    command = Command.request(RequestCode.EXCHANGE_BROKER_HA_INFO, told)
    for _ in range(10):
        await group.client.invoke_oneway(f"{host}:10911", command)
        await group.clock.run_for(200)
        assert not group.brokers[host].replicas.follower.status().is_connected
    group.net.heal()
    await group.until(lambda: group.in_step == {1, 2, 3})
    await group.stop()
