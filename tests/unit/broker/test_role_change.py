"""A broker becomes a slave and a master again, under traffic. The dialogue of clients is in tests/scenarios/roles."""

from __future__ import annotations

import asyncio

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.codec.record import decode_records
from rocketlake.model.group import GroupConfig
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.send import SendBackHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage
from tests.requests import send_header
from tests.unit.broker.processors.test_role_in_acks import ORDINARY, PLAIN, goes_by_run, runs
from tests.unit.broker.processors.test_send_durability import Bench, bench

__all__ = ["bench", "runs"]


def bodies(bench: Bench) -> list[bytes]:
    slices = bench.broker.store.get("T", 0, 0, 100, 1 << 20).slices
    return [bytes(message.body) for message in decode_records(b"".join(slices))]


async def sent(bench: Bench, body: bytes, properties: str, topic: str = "T") -> asyncio.Task[Command]:
    header = send_header(topic=topic, properties=properties)
    command = Command.request(RequestCode.SEND_MESSAGE_V2, header, body)
    task = asyncio.create_task(bench.client.invoke("10.0.0.2:10911", command, 1e9))
    await bench.clock.settle()
    return task


@pytest.mark.parametrize("properties", [PLAIN, ORDINARY])
async def test_what_was_accepted_is_stored_once_and_what_was_refused_never(
    bench: Bench, runs: list[int], properties: str
) -> None:
    asked: dict[bytes, asyncio.Task[Command]] = {}
    for number, change in enumerate([None, "slave", None, "master", None, "slave", "master", None]):
        # Three senders: one before the change, one while it is made, one behind it.
        asked[b"%d before" % number] = await sent(bench, b"%d before" % number, properties)
        made = asyncio.create_task(
            bench.broker.become_slave(1) if change == "slave" else bench.broker.become_master()
        ) if change else None  # fmt: skip
        asked[b"%d meanwhile" % number] = await sent(bench, b"%d meanwhile" % number, properties)
        if made is not None:
            await made
        asked[b"%d after" % number] = await sent(bench, b"%d after" % number, properties)
        await bench.run_flush()
    codes = {body: (await task).code for body, task in asked.items()}
    accepted = [body for body, code in codes.items() if code == ResponseCode.SUCCESS]
    assert bodies(bench) == accepted
    assert {code for code in codes.values() if code} == {ResponseCode.SYSTEM_BUSY}
    refused = {body for body, code in codes.items() if code}
    assert {b"1 after", b"2 before", b"2 after", b"3 before", b"5 after", b"6 before"} <= refused
    assert {b"0 after", b"1 before", b"3 after", b"5 before", b"6 after", b"7 after"} <= set(accepted)
    assert sum(runs) == (len(accepted) if goes_by_run(properties) else 0)


async def test_a_send_that_waits_for_its_topic_is_refused_and_one_that_waits_for_the_disk_is_answered(
    bench: Bench,
) -> None:
    waits_for_disk = await sent(bench, b"stored", PLAIN)
    waits_for_topic = await sent(bench, b"not stored", PLAIN, topic="New")
    await bench.broker.become_slave(7)
    assert (await waits_for_topic).code == ResponseCode.SYSTEM_BUSY
    assert "(brokerId 7): ask the master of b" in ((await waits_for_topic).remark or "")
    assert not waits_for_disk.done()
    await bench.run_flush()
    assert (await waits_for_disk).code == ResponseCode.SUCCESS
    bench.saver.run_all()
    await bench.clock.settle()
    assert bench.broker.store.max_offset("New", 0) == 0
    await bench.broker.become_master()
    again = await sent(bench, b"stored", PLAIN, topic="New")
    await bench.run_flush()
    assert ((await again).code, bench.broker.store.max_offset("New", 0)) == (ResponseCode.SUCCESS, 1)


async def test_a_slave_starts_without_the_masters_wings_and_becomes_a_master(bench: Bench) -> None:
    parked = await sent(bench, b"late", "DELAY\x011\x02")
    await bench.run_flush()
    assert (await parked).code == ResponseCode.SUCCESS
    await bench.broker.stop()
    slave = Bench(bench.disk, broker_id=1)
    await slave.broker.start()
    assert not [wing.name for wing in slave.broker._master_wings if wing.is_running]
    refused = [await sent(slave, b"refused", properties) for properties in (PLAIN, ORDINARY)]
    assert [(await answer).code for answer in refused] == [ResponseCode.SYSTEM_BUSY] * 2
    await slave.clock.run_for(20_000)
    await slave.run_flush()
    assert bodies(slave) == []
    await slave.broker.become_master()
    await slave.clock.run_for(1000)
    taken = await sent(slave, b"taken", PLAIN)
    await slave.run_flush()
    assert ((await taken).code, bodies(slave)) == (ResponseCode.SUCCESS, [b"late", b"taken"])
    await slave.client.close()
    await slave.broker.stop()


async def test_a_message_handed_back_whose_record_is_read_during_the_change_is_refused(bench: Bench) -> None:
    """Its record lies on disk only. The slave stores nothing when the record is there."""
    store, client = bench.broker.store, bench.client
    put = await sent(bench, b"first", PLAIN)
    await bench.run_flush()
    assert (await put).code == ResponseCode.SUCCESS
    bench.broker.groups.put(GroupConfig("g"))
    for size in [60_000] * 2:  # the first file of the log is not the newest one any more
        store.put(PutMessage("Other", 0, b"x" * size))
    bench.plan.add(Fault("is_resident", "commitlog", error=None))
    header = SendBackHeader(offset=0, group="g", delay_level=3)
    command = Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
    handed_back = asyncio.create_task(client.invoke("10.0.0.2:10911", command, 1e9))
    await bench.clock.settle()
    assert len(bench.broker.ground.cold_requests) == 1
    end = store.max_physical_offset
    await bench.broker.become_slave(1)
    while len(bench.broker.ground.cold_requests):
        bench.reads.run_all()
        await bench.clock.settle()
    assert ((await handed_back).code, store.max_physical_offset) == (ResponseCode.SYSTEM_BUSY, end)


async def test_a_change_of_role_behind_a_stop_starts_nothing(bench: Bench) -> None:
    await bench.broker.become_slave(1)
    change = asyncio.create_task(bench.broker.become_master())
    await bench.broker.stop()
    await change
    for _twice in range(2):
        await bench.broker.become_slave(1)
        await bench.broker.become_master()
    assert [service.name for service in bench.broker.services() if service.is_running or service.duties] == []


async def test_name_servers_are_told_the_id_of_the_role(bench: Bench) -> None:
    assert bench.broker.ground.role.identity().broker_id == 0
    await bench.broker.become_slave(3)
    assert bench.broker.ground.role.identity().broker_id == 3
    for _twice in range(2):
        await bench.broker.become_master()
        assert bench.broker.ground.role.identity().broker_id == 0
