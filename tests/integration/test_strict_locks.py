"""lockInStrictMode: a lock of an ordered queue outlives its master, and counts only where most members have it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.broker.config import BrokerConfig
from rocketlake.client.calls import group as calls
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.bodies.lock import LockBody
from rocketlake.protocol.bodies.queue_map import QueueEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from tests.replica_group import NAMESRV, ReplicaGroup

QUEUES = {MessageQueue("T", "b", number) for number in range(3)}


class Group(ReplicaGroup):
    """Consumers lock at whatever master there is."""

    async def lock(self, client_id: str, host: str = "") -> set[MessageQueue]:
        address = f"{host or self.master}:10911"
        asked = asyncio.ensure_future(calls.lock(self.client, address, client_id, "readers", QUEUES, 1000))
        await self.clock.run_for(0)
        while not asked.done():
            await self.clock.run_for(10)
        return asked.result()

    async def unlock(self, client_id: str) -> None:
        asked = asyncio.ensure_future(
            calls.unlock(self.client, f"{self.master}:10911", client_id, "readers", QUEUES, 1000)
        )
        await self.run_through(asked)
        await self.clock.run_for(100)  # the other members hear of it in the background

    async def lose_master(self) -> None:
        old = self.master
        self.crash(old)
        await self.until(lambda: any(host != old for host in self.masters))
        del self.brokers[old]


@pytest.fixture(params=[True, False], ids=["strict", "not strict"])
async def group(request: pytest.FixtureRequest) -> AsyncIterator[Group]:
    group = Group(lock_in_strict_mode=request.param, total_replicas=3)
    await group.start()
    yield group
    await group.stop()


async def test_the_next_master_knows_the_locks(group: Group) -> None:
    is_strict = group.settings["lock_in_strict_mode"]
    assert await group.lock("first") == QUEUES
    await group.lose_master()
    assert await group.lock("second") == (set() if is_strict else QUEUES)
    if is_strict:
        assert await group.lock("first") == QUEUES, "renewed"
        await group.unlock("first")
        assert await group.lock("second") == QUEUES


async def test_a_lock_that_most_members_lack_does_not_count(group: Group) -> None:
    is_strict = group.settings["lock_in_strict_mode"]
    master = group.master
    for host in group.hosts:
        if host != master:
            group.crash(host, silent=True)
    assert await group.lock("first", master) == (set() if is_strict else QUEUES)


async def test_a_lock_that_another_member_has_given_to_another_client_does_not_count(group: Group) -> None:
    """So it is behind a master that lost its role without knowing it."""
    is_strict = group.settings["lock_in_strict_mode"]
    others = [host for host in group.hosts if host != group.master]
    for host in others:
        entries = [QueueEntry.from_model(queue) for queue in QUEUES]
        body = LockBody(client_id="first", consumer_group="readers", queues=entries, only_this_broker=True)
        command = Command.request(RequestCode.LOCK_BATCH_MQ, body=body.encode())
        await group.run_through(asyncio.ensure_future(group.client.invoke(f"{host}:10911", command)))
    assert await group.lock("second") == (set() if is_strict else QUEUES)


async def test_a_name_server_that_hangs_holds_up_no_lock(group: Group) -> None:
    assert await group.lock("first") == QUEUES
    for host in group.hosts:
        group.net.partition(NAMESRV, host)
    assert await group.lock("first") == QUEUES


def test_strict_without_the_number_of_members_is_refused() -> None:
    with pytest.raises(UsageError, match="totalReplicas"):
        BrokerConfig(lock_in_strict_mode=True).validate()
