"""Hostile peers on real loopback sockets: the server closes them, stays small, serves on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.limits import NetLimits
from rocketlake.net.request import Reply, Request
from rocketlake.net.server import Server
from rocketlake.protocol.command import Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.frame import Codec

ECHO, BIG = 1, 2
BIG_BODY = memoryview(bytes(256 * 1024))


class Target:
    """A server, and a client that proves it still serves."""

    def __init__(self, limits: NetLimits | None = None) -> None:
        self.served = 0
        rows = [Row(ECHO, lambda request: Reply(0, body=request.body), ANYBODY), Row(BIG, self._big, ANYBODY)]
        self.server = Server(Dispatcher(rows), limits=limits)
        self.client = NetClient()

    def _big(self, _: Request) -> Reply:
        self.served += 1
        return Reply(0, body=[BIG_BODY])

    async def __aenter__(self) -> Target:
        await self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        await self.server.stop(0)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.server.port)

    async def still_serves(self) -> bool:
        answer = await self.client.invoke(self.server.address, Command.request(ECHO, body=b"alive"))
        return answer.body == b"alive"


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    async with Target() as world:
        yield world


def frame(total: int, kind: int, header: int, rest: bytes = b"") -> bytes:
    return total.to_bytes(4, "big", signed=True) + bytes([kind]) + header.to_bytes(3, "big") + rest


def resident_bytes() -> int:
    """Memory of this process now (the server runs in it)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def closed(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(5):
            while await reader.read(1 << 16):
                pass
    except ConnectionError:
        pass
    return True


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(frame(0x7FFFFFFF, 0, 10), id="length bomb"),
        pytest.param(frame(16 * 1024 * 1024 + 1, 0, 10), id="oversize"),
        pytest.param(frame(-1, 0, 0), id="negative length"),
        pytest.param(frame(3, 0, 0), id="length 3"),
        pytest.param(frame(20, 0, 100), id="header longer than frame"),
        pytest.param(frame(20, 7, 10), id="unknown type"),
        pytest.param(frame(8, 0, 4, b"{{{{"), id="no JSON"),
        pytest.param(frame(4 + 60_000, 0, 60_000, b"[" * 60_000), id="depth bomb"),
        pytest.param(frame(4 + 21, 1, 21, b"\xff" * 21), id="binary lies"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="TLS hello"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", id="HTTP"),
    ],
)
async def test_a_lie_closes_its_link_with_a_log_line_and_nothing_else(
    target: Target, caplog: pytest.LogCaptureFixture, attack: bytes
) -> None:
    reader, writer = await target.connect()
    with caplog.at_level(logging.WARNING):
        writer.write(attack)
        assert await closed(reader)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "closed:" in caplog.text
    assert await target.still_serves()
    await hang_up(writer)


async def test_random_garbage_never_stops_the_server(target: Target) -> None:
    source = random.Random(7)
    for _ in range(100):
        reader, writer = await target.connect()
        writer.write(source.randbytes(source.randrange(1, 400)))
        writer.write_eof()
        assert await closed(reader)
        await hang_up(writer)
    assert await target.still_serves()


async def test_announced_lengths_cost_no_memory(target: Target) -> None:
    before = resident_bytes()
    connections = [await target.connect() for _ in range(200)]
    for _, writer in connections:
        writer.write(frame(16 * 1024 * 1024, 0, 100))
    assert await target.still_serves()
    assert resident_bytes() - before < 64 << 20  # the announced sum is 3.2 GiB
    for _, writer in connections:
        await hang_up(writer)


async def test_a_peer_that_never_reads_costs_bounded_memory_and_is_closed() -> None:
    async with Target(NetLimits(write_high_bytes=1 << 20, stuck_seconds=0.2)) as target:
        _, writer = await target.connect()
        machine = Connection()
        before = resident_bytes()
        for number in range(2000):  # asks for 500 MiB, reads nothing
            writer.writelines(machine.send(Command(BIG, opaque=number)))
        async with asyncio.timeout(10):
            while not target.served:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert await target.still_serves()
            while len(target.server.links) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert target.served < 100
        assert resident_bytes() - before < 100 << 20
        writer.transport.abort()


async def test_a_slow_reader_gets_everything(target: Target) -> None:
    reader, writer = await target.connect()
    machine, answers = Connection(), []
    for number in range(100):
        writer.writelines(machine.send(Command(BIG, opaque=number)))
    while len(answers) < 100:
        answers += machine.receive_data(await asyncio.wait_for(reader.read(1 << 18), 5))
        await asyncio.sleep(0)
    assert sorted(answer.opaque for answer in answers) == [*range(100)]
    await hang_up(writer)


async def test_byte_by_byte_is_understood(target: Target) -> None:
    reader, writer = await target.connect()
    for codec in Codec:
        machine = Connection(codec)
        for byte in b"".join(bytes(part) for part in machine.send(Command(ECHO, opaque=9, body=b"slow"))):
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        answers: list[Command] = []
        while not answers:
            answers += machine.receive_data(await asyncio.wait_for(reader.read(1 << 16), 5))
        assert (answers[0].opaque, answers[0].body) == (9, b"slow")
    await hang_up(writer)


async def test_connections_over_the_limit_are_closed_and_the_others_served() -> None:
    async with Target(NetLimits(connections=10)) as target:
        assert await target.still_serves()
        connections = [await target.connect() for _ in range(30)]
        async with asyncio.timeout(5):
            refused = await asyncio.gather(*(closed(reader) for reader, _ in connections[9:]))
        assert all(refused)
        assert await target.still_serves()
        assert len(target.server.links) == 10
        for _, writer in connections:
            await hang_up(writer)
