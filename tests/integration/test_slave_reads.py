"""Pulls of a slave, and when a consumer is sent from one replica to the other."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from rocketlake.base.errors import LinkError
from rocketlake.client.config import ClientConfig
from rocketlake.client.consumer.queue_access import QueueAccess
from rocketlake.client.instance import ClientInstance
from rocketlake.model.group import GroupConfig
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.positions import PhysicalOffset
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.pull import PullReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage
from tests.replica_pair import MASTER, NAMESRV, SLAVE, ReplicaPair
from tests.requests import pull_header


async def started(**settings: object) -> ReplicaPair:
    """A pair with ten messages in T/0, copied to the slave, and the group g."""
    pair = ReplicaPair(**settings)
    await pair.start()
    pair.master.topics.put(TopicConfig("T"))
    pair.master.groups.put(GroupConfig("g", which_broker_when_consume_slowly=1))
    for number in range(10):
        pair.master.store.put(PutMessage("T", 0, b"%d" % number * 500))
    await pair.clock.run_for(1000)
    assert pair.slave.store.max_offset("T", 0) == 10
    return pair


@pytest.fixture
async def pair() -> AsyncIterator[ReplicaPair]:
    pair = await started(slave_read_enabled=True)
    yield pair
    await pair.stop()


async def pull(pair: ReplicaPair, host: str, offset: int, wait_ms: int = 0) -> tuple[str, int, int, float]:
    """(code, next offset, suggested broker id, seconds it took)."""
    start = pair.clock.monotonic()
    command = Command.request(RequestCode.PULL_MESSAGE, pull_header(offset=offset, wait_ms=wait_ms))
    answer = await pair.ask(host, command)
    header = answer.header(PullReplyHeader)
    code = ResponseCode(answer.code).name
    return code, header.next_begin_offset, header.suggest_which_broker_id, round(pair.clock.monotonic() - start, 1)


@pytest.fixture
def ten_kilobytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of the machine: 4,000 bytes of the log count as recent for a master, 3,000 for a slave."""
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 1000, "SC_PHYS_PAGES": 10}.__getitem__)


async def test_a_consumer_that_is_far_behind_is_sent_to_the_slave_and_comes_back(ten_kilobytes: None) -> None:
    """Ten messages of about 600 bytes. The slave keeps a consumer for longer than the master sends it away."""
    pair = await started(slave_read_enabled=True)
    assert [(await pull(pair, MASTER, offset))[2] for offset in (0, 3, 4, 9)] == [1, 1, 0, 0]
    assert [(await pull(pair, SLAVE, offset))[2] for offset in (0, 3, 4, 6, 9)] == [1, 1, 1, 0, 0]
    assert (await pull(pair, MASTER, 0))[:2] == (await pull(pair, SLAVE, 0))[:2]
    pair.master.groups.put(GroupConfig("g", broker_id=5, which_broker_when_consume_slowly=2))
    await pair.clock.run_for(100)
    assert [(await pull(pair, MASTER, offset))[2] for offset in (0, 9)] == [2, 5]
    await pair.stop()


async def test_a_slave_says_nothing_of_what_it_lacks_while_its_master_is_there(pair: ReplicaPair) -> None:
    """The end of its queue may not be the end on the master."""
    for offset in (10, 11, 500):
        assert await pull(pair, SLAVE, offset) == ("PULL_RETRY_IMMEDIATELY", offset, 0, 0)
    code, next_offset, broker_id, seconds = await pull(pair, SLAVE, 10, wait_ms=20_000)
    assert (code, next_offset, broker_id) == ("PULL_RETRY_IMMEDIATELY", 10, 0)
    assert 0.4 < seconds < 0.8


async def test_pulls_wait_on_the_slave_when_the_master_is_gone(pair: ReplicaPair) -> None:
    await pair.master.stop()
    await pair.clock.run_for(2000)
    for offset in (10, 500):
        assert await pull(pair, SLAVE, offset, wait_ms=5000) == ("PULL_NOT_FOUND", offset, 0, pytest.approx(5, abs=0.2))
    assert await pull(pair, SLAVE, 3) == ("SUCCESS", 10, 0, 0)
    assert pair.slave.health.troubles  # it cannot copy, and says so


async def test_a_slave_that_serves_no_reads_sends_consumers_away_slowly(ten_kilobytes: None) -> None:
    pair = await started()
    assert await pull(pair, SLAVE, 0) == ("PULL_RETRY_IMMEDIATELY", 0, 0, 0)
    code, _next, broker_id, seconds = await pull(pair, SLAVE, 0, wait_ms=20_000)
    assert (code, broker_id) == ("PULL_RETRY_IMMEDIATELY", 0)
    assert 0.4 < seconds < 0.8
    assert (await pull(pair, MASTER, 0))[2] == 0
    await pair.stop()


async def test_a_slave_that_knows_no_offset_of_a_group_is_not_believed(pair: ReplicaPair) -> None:
    """A group that starts at the end would miss messages if the slave had not heard of its first offset yet."""
    queue = MessageQueue("T", "b", 0)
    config = ClientConfig(namesrv=f"{NAMESRV}:9876")
    client = ClientInstance(config, clock=pair.clock, network=pair.net.host("10.0.0.78"))
    known, new = QueueAccess(client, "g"), QueueAccess(client, "new")
    await pair.follow(known.commit(queue, 7))
    await pair.clock.run_for(2000)
    assert [await pair.follow(access.committed(queue)) for access in (known, new)] == [7, 0]  # all is in memory
    await pair.master.stop()
    await pair.clock.run_for(2000)
    await pair.follow(client.refresh_route("T"))
    assert await pair.follow(known.committed(queue)) == 7
    with pytest.raises(LinkError, match="the master is away"):
        await pair.follow(new.committed(queue))
    await client.stop()


async def test_a_group_that_reads_on_a_slave_saves_its_offsets_there(pair: ReplicaPair) -> None:
    """They were saved nowhere: each restart of a consumer repeated all that it had read since the master went away."""
    queue = MessageQueue("T", "b", 0)
    config = ClientConfig(namesrv=f"{NAMESRV}:9876")
    clients = [ClientInstance(config, clock=pair.clock, network=pair.net.host(f"10.0.0.{n}")) for n in (78, 79)]
    before, after = (QueueAccess(client, "g") for client in clients)
    await pair.follow(before.commit(queue, 3))
    await pair.clock.run_for(2000)
    await pair.master.stop()
    await pair.clock.run_for(2000)
    await pair.follow(clients[0].refresh_route("T"))
    await pair.follow(before.commit(queue, 9))
    assert await pair.follow(after.committed(queue)) == 9
    for client in clients:
        await client.stop()


async def test_a_slave_whose_disk_lost_records_serves_no_reads(pair: ReplicaPair) -> None:
    """Its queues lead past them; other replicas have them."""
    pair.slave.store.checkpoint.damaged_from = PhysicalOffset(600)
    assert await pull(pair, SLAVE, 0) == ("PULL_RETRY_IMMEDIATELY", 0, 0, 0)
    await pair.slave.store.end_is_sound()
    assert (await pull(pair, SLAVE, 0))[0] == "SUCCESS"
