"""The log stream between two of our brokers: network and disks in memory, time moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerRole
from rocketlake.codec.record import decode_records
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage
from tests.replica_pair import MASTER, SLAVE, ReplicaPair
from tests.requests import send_header


class Pair(ReplicaPair):
    """A pair whose master takes messages of topic T."""

    async def start(self) -> None:
        await super().start()
        self.master.topics.put(TopicConfig("T"))

    def put(self, *bodies: bytes) -> None:
        for body in bodies:
            assert self.master.store.put(PutMessage("T", 0, body)).status.is_stored

    async def sent(self, body: bytes, host: str = MASTER) -> asyncio.Task[Command]:
        command = Command.request(RequestCode.SEND_MESSAGE_V2, send_header(), body)
        task = asyncio.create_task(self.client.invoke(f"{host}:10911", command, 1e9))
        await self.clock.settle()
        return task


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    pair = Pair()
    await pair.start()
    yield pair
    await pair.stop()


def log_of(broker: Broker) -> bytes:
    return b"".join(bytes(view) for _offset, view in broker.store.log_views(broker.store.min_physical_offset))


def bodies_of(broker: Broker) -> list[bytes]:
    slices = broker.store.get("T", 0, 0, 1000, 1 << 30).slices
    return [bytes(message.body) for message in decode_records(b"".join(slices))]


async def test_a_slave_has_each_byte_and_serves_it(pair: Pair) -> None:
    await pair.clock.run_for(2000)
    bodies = [b"%d" % number * (number % 7 * 400 + 1) for number in range(300)]  # several files
    pair.put(*bodies[:200])
    await pair.clock.settle()
    assert log_of(pair.slave) == log_of(pair.master)  # not a millisecond later
    pair.put(*bodies[200:])
    await pair.clock.settle()
    assert log_of(pair.slave) == log_of(pair.master)
    assert len(pair.master.store.log.list.files) > 2
    assert bodies_of(pair.slave)[:32] == bodies_of(pair.master)[:32] != []
    (status,) = pair.master.replicas.leader.slaves()
    assert (status.name, status.behind, status.ack) == (SLAVE, 0, pair.master.store.max_physical_offset)


async def test_an_empty_slave_gets_all_files_and_one_that_was_away_the_rest(pair: Pair) -> None:
    await pair.slave.stop()
    pair.put(*[b"x" * 3000] * 100)
    pair.slave = pair.new_broker(SLAVE, 1)
    await pair.slave.start()
    await pair.clock.run_for(1000)
    assert log_of(pair.slave) == log_of(pair.master) != b""


async def test_sync_master_answers_when_the_slave_has_it() -> None:
    pair = Pair()
    pair.master = pair.new_broker(MASTER, 0, broker_role=BrokerRole.SYNC_MASTER)
    await pair.start()
    await pair.clock.run_for(2000)
    sent = await pair.sent(b"first")
    assert (sent.result().code, log_of(pair.slave)) == (ResponseCode.SUCCESS, log_of(pair.master))
    pair.net.partition(MASTER, SLAVE)
    late = await pair.sent(b"late")
    await pair.clock.run_for(2900)
    assert not late.done()
    await pair.clock.run_for(1200)
    assert late.result().code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    pair.net.heal()
    await pair.clock.run_for(1000)
    assert (await pair.sent(b"again")).result().code == ResponseCode.SUCCESS
    await pair.slave.stop()
    alone = await pair.sent(b"alone")
    await pair.clock.run_for(4000)
    assert alone.result().code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    assert (await pair.sent(b"at once")).result().code == ResponseCode.SLAVE_NOT_AVAILABLE
    await pair.stop()


async def test_roles_change_and_the_stream_turns_round(pair: Pair) -> None:
    await pair.clock.run_for(2000)
    pair.put(b"one", b"two")
    await pair.clock.settle()
    await pair.master.become_slave(2)
    await pair.slave.become_master()
    await pair.clock.run_for(3000)
    assert (await pair.sent(b"three", SLAVE)).result().code == ResponseCode.SUCCESS
    await pair.clock.run_for(31_000)  # the next registration tells who the master is
    assert log_of(pair.master) == log_of(pair.slave)
    assert bodies_of(pair.master) == bodies_of(pair.slave) == [b"one", b"two", b"three"]
