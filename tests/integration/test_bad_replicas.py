"""What connects to the port for replicas of a master under a controller and is none, or a bad one.

The classic stream: test_bad_slaves.py. Each case leaves the group as it was: sends are acknowledged by its members.
"""

from __future__ import annotations

import asyncio
import logging
import random
import struct
from collections.abc import AsyncIterator
from typing import cast

import pytest

from rocketlake.protocol.response_code import ResponseCode
from rocketlake.replication.auto_switch import layout
from tests.replica_group import ReplicaGroup

STRANGER = "10.0.0.66"
OK = ResponseCode.SUCCESS
END_MAX = 2**63 - 1


class Peer(asyncio.Protocol):
    """An end that does what a test says."""

    def __init__(self) -> None:
        self.data = b""
        self.is_open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_open = False


class Besieged(ReplicaGroup):
    """A group whose master has strangers at its port."""

    async def connect(self, host: str = STRANGER, said: bytes = b"") -> Peer:
        peer = await self.net.host(host).connect(Peer, self.master, 10912)
        assert isinstance(peer, Peer)
        await self.clock.settle()
        if said:
            peer.transport.write(said)
            await self.clock.settle()
        return peer

    @property
    def links(self) -> int:
        """How many connections the master has at this port."""
        return len(self.brokers[self.master].replicas.leader._links)

    @property
    def end(self) -> int:
        return self.brokers[self.master].store.max_physical_offset

    def copies(self, body: bytes) -> int:
        """How many brokers have this message in their logs."""
        found = 0
        for broker in self.brokers.values():
            store = broker.store
            found += body in b"".join(bytes(view) for _offset, view in store.log_views(store.min_physical_offset))
        return found


@pytest.fixture
async def group() -> AsyncIterator[Besieged]:
    group = Besieged(ha_silence_ms=4000, ha_heartbeat_ms=1000)
    await group.start()
    assert await group.send(b"first") == OK
    await group.clock.run_for(500)
    yield group
    await group.stop()


def hello(broker_id: int, *, state: int = layout.STATE_HANDSHAKE, is_learner: int = 0) -> bytes:
    return layout.HANDSHAKE.pack(state, 0, is_learner, broker_id)


def report(end: int) -> bytes:
    return layout.REPORT.pack(layout.STATE_TRANSFER, end)


LIES = {
    "random": random.Random(5).randbytes(64),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a giant length": struct.pack(">iq", 0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF),
    "a classic slave": struct.pack(">qq", 0, 0),
    "a report without a handshake": report(0),
    "a handshake of nobody": hello(-1),
    "flags that are none": struct.pack(">ihhq", 1, 7, 0, 4),
    "two names": hello(4) + hello(5),
    "a handshake after a report": hello(4) + report(0) + hello(4),
    "an end beyond the log": hello(4) + report(END_MAX),
    "an end before the log": hello(4) + report(-1),
    "a member's id, and an end beyond the log": hello(2) + report(END_MAX),
}


@pytest.mark.parametrize("what", LIES)
async def test_a_lie_ends_its_connection_with_one_line_and_nothing_else(
    group: Besieged, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    before, master = group.links, group.master
    with caplog.at_level(logging.INFO, "rocketlake.replication"):
        for _again in range(20):
            peer = await group.connect(said=LIES[what])
            assert not peer.is_open
    assert group.links == before
    (line,) = (each.message for each in caplog.records if each.levelno == logging.WARNING)
    assert STRANGER in line and ("it encrypts" if what == "tls" else "not served any more") in line
    assert len(caplog.records) < 3
    assert await group.send(b"after") == OK
    assert group.copies(b"after") == 3
    assert (group.master, group.in_step) == (master, {1, 2, 3})


async def test_reports_that_go_back_or_beyond_what_was_sent_end_the_connection(group: Besieged) -> None:
    peer = await group.connect(said=hello(4) + report(0))
    assert peer.is_open and len(peer.data) > 36
    for end in (group.end, 0):
        assert peer.is_open
        peer.transport.write(report(end))
        await group.clock.settle()
    assert not peer.is_open
    peer = await group.connect(said=hello(4) + report(0))
    peer.transport.pause_reading()
    peer.transport.write(report(group.end + 1))
    await group.clock.settle()
    assert not peer.is_open
    assert await group.send(b"after") == OK


async def test_health_checks_cost_no_line_and_no_connection(group: Besieged, caplog: pytest.LogCaptureFixture) -> None:
    before = group.links
    with caplog.at_level(logging.INFO):
        for _check in range(200):
            (await group.connect()).transport.close()
            await group.clock.settle()
    assert (group.links, caplog.messages) == (before, [])
    assert await group.send(b"after") == OK


async def test_half_of_a_handshake_or_no_report_is_waited_for_and_then_closed(group: Besieged) -> None:
    before = group.links
    half = await group.connect(said=hello(4)[:9])
    greeted = await group.connect("10.0.0.67", hello(5))
    once = len(greeted.data)
    for _second in range(3):
        greeted.transport.write(hello(5))  # as Apache's slave does while it waits
        await group.clock.run_for(1000)
    assert (half.data, len(greeted.data), half.is_open) == (b"", once, True)
    greeted.transport.pause_reading()  # half open: it neither reads nor writes
    await group.clock.run_for(5000)
    assert (half.is_open, greeted.is_open, group.links) == (False, False, before)
    assert await group.send(b"after") == OK


async def test_a_stranger_with_an_unknown_id_never_counts(group: Besieged) -> None:
    stranger = await group.connect(said=hello(77) + report(group.end))
    assert stranger.is_open
    for number in range(5):
        assert await group.send(b"%d" % number) == OK
        stranger.transport.write(report(group.end))
        await group.clock.run_for(500)
    assert group.in_step == {1, 2, 3}
    group.crash(victim := next(host for host in group.hosts if host != group.master))
    await group.until(lambda: len(group.in_step) == 2)
    await group.begin_again(victim)
    await group.until(lambda: group.in_step == {1, 2, 3})  # nor does it keep others from joining
    assert await group.send(b"after") == OK


@pytest.mark.parametrize("is_learner", [0, 1])
async def test_a_stranger_with_the_masters_own_id_never_counts(group: Besieged, is_learner: int) -> None:
    own = group.hosts.index(group.master) + 1
    for _again in range(3):
        stranger = await group.connect(said=hello(own, is_learner=is_learner) + report(0))
        assert await group.send(b"while it is there") == OK
        stranger.transport.write(report(group.end))
        await group.clock.run_for(500)
        stranger.transport.abort()
        await group.clock.run_for(500)
    assert group.in_step == {1, 2, 3}
    assert await group.send(b"after") == OK
    assert group.copies(b"after") == 3


async def test_who_claims_the_id_of_a_member_delays_and_loses_nothing(group: Besieged) -> None:
    """Its place is back as soon as it is gone; a message that it alone would have is not acknowledged."""
    slave = next(host for host in group.hosts if host != group.master)
    claimed = group.hosts.index(slave) + 1
    thief = await group.connect(said=hello(claimed) + report(0))
    await group.clock.run_for(200)
    thief.transport.abort()
    await group.clock.run_for(2000)
    assert await group.send(b"after") == OK
    assert group.copies(b"after") == 3
    assert group.in_step == {1, 2, 3}


async def test_strangers_that_never_read_cost_a_bounded_buffer_each(group: Besieged) -> None:
    strangers = [await group.connect(f"10.0.1.{number}", hello(100 + number)) for number in range(8)]
    for stranger in strangers:
        stranger.transport.pause_reading()
        stranger.transport.write(report(0))
    await group.clock.settle()
    for _message in range(100):
        assert await group.send(b"x" * 40_000) == OK
    leader = group.brokers[group.master].replicas.leader
    sent = [link.sent for link in leader._links if link.host.startswith("10.0.1.")]
    assert len(sent) == 8 and max(sent) < 3 << 20 < group.end
    assert group.in_step == {1, 2, 3}
    await group.clock.run_for(5000)
    assert not any(stranger.is_open for stranger in strangers)


async def test_many_strangers_leave_room_for_a_replica(group: Besieged) -> None:
    strangers = [await group.connect(STRANGER, hello(100 + number) + report(0)) for number in range(100)]
    assert group.links <= 64
    assert sum(stranger.is_open for stranger in strangers) <= 62
    group.crash(victim := next(host for host in group.hosts if host != group.master))
    await group.until(lambda: len(group.in_step) == 2)
    strangers += [await group.connect(STRANGER, hello(300 + number) + report(0)) for number in range(100)]
    await group.begin_again(victim)
    await group.until(lambda: group.in_step == {1, 2, 3})
    assert await group.send(b"after") == OK
