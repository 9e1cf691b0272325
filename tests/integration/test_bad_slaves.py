"""What connects to the port for slaves and is none, or a bad one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import cast

import pytest

from rocketlake.broker.config import BrokerRole
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage
from tests.replica_pair import MASTER, ReplicaPair
from tests.requests import send_header

STRANGER = "10.0.0.66"


class Peer(asyncio.Protocol):
    """An end that does what a test says."""

    def __init__(self) -> None:
        self.data = b""
        self.is_open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False


class Alone(ReplicaPair):
    """A SYNC_MASTER; its slave is played by a test."""

    async def start(self) -> None:
        self.master = self.new_broker(
            MASTER,
            0,
            broker_role=BrokerRole.SYNC_MASTER,
            namesrv_addresses=(),
            ha_connections_max=4,
            ha_silence_ms=20_000,
        )
        await self.master.start()
        self.master.topics.put(TopicConfig("T"))
        for number in range(5):
            self.master.store.put(PutMessage("T", 0, b"%d" % number * 100))

    async def stop(self) -> None:
        await self.client.close()
        await self.master.stop()

    async def connect(self, host: str = STRANGER) -> Peer:
        peer = await self.net.host(host).connect(Peer, MASTER, 10912)
        assert isinstance(peer, Peer)
        await self.clock.settle()
        return peer

    async def say(self, peer: Peer, data: bytes) -> None:
        peer.transport.write(data)
        await self.clock.settle()

    async def send(self) -> asyncio.Task[Command]:
        command = Command.request(RequestCode.SEND_MESSAGE_V2, send_header(), b"body")
        task = asyncio.create_task(self.client.invoke(f"{MASTER}:10911", command, 1e9))
        await self.clock.settle()
        return task

    @property
    def end(self) -> int:
        return self.master.store.max_physical_offset


@pytest.fixture
async def alone() -> AsyncIterator[Alone]:
    alone = Alone()
    await alone.start()
    yield alone
    await alone.stop()


def report(end: int) -> bytes:
    return end.to_bytes(8, "big", signed=True)


async def test_a_master_is_silent_until_the_first_report_then_sends_everything(alone: Alone) -> None:
    slave = await alone.connect()
    await alone.clock.run_for(15_000)
    assert (slave.data, slave.is_open) == (b"", True)
    await alone.say(slave, report(0)[:3])
    await alone.say(slave, report(0)[3:])
    log = b"".join(bytes(view) for _offset, view in alone.master.store.log_views(0))  # type: ignore[arg-type]
    assert slave.data == report(0) + (alone.end).to_bytes(4, "big") + log
    slave.data = b""
    await alone.clock.run_for(5500)
    assert slave.data == report(alone.end) + bytes(4)  # a heartbeat carries the next offset


@pytest.mark.parametrize("what", ["random", "http", "beyond the end", "negative"])
async def test_an_end_that_cannot_be_acknowledges_nothing(alone: Alone, what: str) -> None:
    sent = await alone.send()
    said = {
        "random": random.Random(5).randbytes(64),
        "http": b"GET / HTTP/1.1\r\n\r\n",
        "beyond the end": report(alone.end + 1),
        "negative": report(-5),
    }[what]
    peer = await alone.connect()
    await alone.say(peer, said)
    assert (peer.is_open, sent.done(), alone.master.replicas.leader.slaves()) == (False, False, [])


async def test_an_ack_of_what_was_not_sent_or_an_end_that_goes_back_ends_the_link(alone: Alone) -> None:
    slave = await alone.connect()
    await alone.say(slave, report(0))
    slave.transport.pause_reading()
    end = alone.end
    sent = await alone.send()
    await alone.say(slave, report(end))
    assert (slave.is_open, sent.done()) == (True, False)
    await alone.say(slave, report(alone.end + 1))
    assert (slave.is_open, sent.done()) == (False, False)
    other = await alone.connect()
    await alone.say(other, report(alone.end))
    assert sent.result().code == ResponseCode.SUCCESS
    await alone.say(other, report(end))
    assert not other.is_open


async def test_connections_that_say_nothing_leak_nothing_and_make_room(alone: Alone) -> None:
    for _check in range(200):
        (await alone.connect()).transport.close()
    await alone.clock.settle()
    leader = alone.master.replicas.leader
    assert len(leader._links) == 0
    silent = [await alone.connect(f"10.0.1.{number}") for number in range(4)]
    slave = await alone.connect()
    await alone.say(slave, report(0))
    assert [peer.is_open for peer in silent] == [False, True, True, True]
    assert len(leader.slaves()) == 1
    for _beat in range(6):
        await alone.clock.run_for(4000)
        await alone.say(slave, report(alone.end))
    assert [peer.is_open for peer in silent] == [False] * 4  # silent for too long
    assert slave.is_open
    await alone.clock.run_for(21_000)
    assert (slave.is_open, leader.slaves(), len(leader._links)) == (False, [], 0)


async def test_two_links_of_one_host_are_one_replica() -> None:
    alone = Alone()
    await alone.start()
    await alone.stop()
    alone.master = alone.new_broker(
        MASTER, 0, broker_role=BrokerRole.SYNC_MASTER, namesrv_addresses=(), in_sync_replicas=3
    )
    await alone.master.start()
    alone.client = alone.client.__class__(clock=alone.clock, network=alone.net.host("10.0.0.78"))
    first, again = await alone.connect(), await alone.connect()
    for link in (first, again):
        await alone.say(link, report(0))
    sent = await alone.send()
    for link in (first, again):
        await alone.say(link, report(alone.end))
    assert not sent.done()
    other = await alone.connect("10.0.1.1")
    await alone.say(other, report(alone.end))
    assert sent.result().code == ResponseCode.SUCCESS
    await alone.stop()


async def test_a_slave_that_does_not_read_costs_a_bounded_buffer_and_its_link(alone: Alone) -> None:
    slave = await alone.connect()
    slave.transport.pause_reading()
    await alone.say(slave, report(0))
    for _put in range(400):
        alone.master.store.put(PutMessage("T", 0, b"x" * 30_000))
        await alone.clock.settle()
    (status,) = alone.master.replicas.leader.slaves()
    assert status.sent < 4 << 20 < alone.end
    for _beat in range(3):
        await alone.clock.run_for(7000)
        await alone.say(slave, report(0))
    await alone.clock.run_for(1000)
    assert not slave.is_open


async def test_flow_control_holds_its_rate_and_beats_as_usual(alone: Alone) -> None:
    await alone.master.stop()
    alone.master = alone.new_broker(
        MASTER, 0, namesrv_addresses=(), ha_flow_control=True, ha_bytes_per_second=100_000, ha_batch_bytes=1000
    )
    await alone.master.start()
    alone.master.topics.put(TopicConfig("T"))
    for _put in range(100):
        alone.master.store.put(PutMessage("T", 0, b"x" * 10_000))
    slave = await alone.connect()
    await alone.say(slave, report(0))
    await alone.clock.run_for(5000)
    assert 450_000 < len(slave.data) < 650_000
    assert slave.is_open
    (link,) = alone.master.replicas.leader._links
    slave.transport.abort()
    await alone.clock.settle()
    sent = link.sent
    await alone.clock.run_for(5000)
    assert link.sent == sent < alone.end, "nothing is read for a slave that is gone"


async def test_of_two_links_of_one_replica_the_newer_one_counts() -> None:
    """The older one may be dead without a word, and what it reported lost in a power cut."""
    alone = Alone()
    await alone.start()
    acks = alone.master.replicas.acks.acks
    old, new = await alone.connect(), await alone.connect()
    for link in (old, new):
        await alone.say(link, report(0))
    await alone.say(old, report(alone.end))
    assert acks == {STRANGER: 0}
    await alone.say(new, report(alone.end))
    assert acks == {STRANGER: alone.end}
    new.transport.abort()
    await alone.clock.run_for(10)
    assert (acks, old.is_open) == ({}, False)  # it may connect again
    await alone.stop()
