"""A slave finds its master and copies its tables."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.bodies.group import GroupEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage
from tests.replica_pair import MASTER, ReplicaPair


@pytest.fixture
async def pair() -> AsyncIterator[ReplicaPair]:
    pair = ReplicaPair()
    await pair.start()
    yield pair
    await pair.stop()


async def test_a_slave_hears_of_its_master_when_it_registers(pair: ReplicaPair) -> None:
    known = pair.slave.cluster.master
    assert (known.address, known.ha_address) == (f"{MASTER}:10911", f"{MASTER}:10912")
    assert pair.master.cluster.master.address == ""
    await pair.slave.become_master()
    assert known.address == ""


async def test_a_slave_that_starts_before_its_master_asks_again_until_there_is_one() -> None:
    pair = ReplicaPair()
    await pair.namesrv.start()
    await pair.slave.start()
    assert pair.slave.cluster.master.address == ""
    await pair.master.start()
    await pair.clock.run_for(1500)
    assert pair.slave.cluster.master.address == f"{MASTER}:10911"
    await pair.stop()


async def test_a_change_is_on_the_slave_before_it_is_answered(pair: ReplicaPair) -> None:
    """Also when the slave's answer takes some hops: the master waits for its receipt."""
    await pair.clock.run_for(100)
    for name in ("New", "Newer"):
        header = CreateTopicHeader(
            topic=name,
            default_topic="TBW102",
            read_queue_nums=3,
            write_queue_nums=3,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            order=False,
        )
        start = pair.clock.monotonic()
        answer = await pair.ask(MASTER, Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header))
        assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
        assert pair.slave.topics.get(name) == pair.master.topics.get(name) != None  # noqa: E711
        assert pair.clock.monotonic() - start < 0.1
    group = GroupEntry(group_name="g", retry_max_times=7)
    answer = await pair.ask(
        MASTER, Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.encode())
    )
    assert answer.code == ResponseCode.SUCCESS
    found = pair.slave.groups.find("g")
    assert found is not None and found.retry_max_times == 7
    assert pair.slave.topics.data_version == pair.master.topics.data_version
    assert pair.slave.groups.data_version == pair.master.groups.data_version


async def test_progress_is_copied_once_the_log_of_the_slave_holds_what_it_speaks_of(pair: ReplicaPair) -> None:
    await pair.slave.replicas.stop_following()
    pair.master.topics.put(TopicConfig("T"))
    put = pair.master.store.put(PutMessage("T", 0, b"x" * 500))
    assert put.next_offset > 0
    pair.master.offsets.commit("g", "T", 0, 1)
    pair.master.delay.progress.move(3, 7)
    await pair.clock.run_for(5000)
    assert (pair.slave.offsets.query("g", "T", 0), pair.slave.delay.progress.next_offset(3)) == (-1, 0)
    await pair.slave.replicas.follow()
    await pair.clock.run_for(1000)
    assert (pair.slave.offsets.query("g", "T", 0), pair.slave.delay.progress.next_offset(3)) == (1, 7)
    pair.master.offsets.commit("g", "T", 0, 0)
    await pair.clock.run_for(1000)
    assert pair.slave.offsets.query("g", "T", 0) == 0
