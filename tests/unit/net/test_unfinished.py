"""All links share one budget for their unfinished frames."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.limits import NetLimits
from rocketlake.net.request import Reply
from rocketlake.net.server import Server
from rocketlake.net.unfinished import UnfinishedBytes
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import encode_command

KIB = 1024
FRAME = b"".join(encode_command(Command(1, body=b"x" * (1024 * KIB))))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_the_largest_unfinished_frame_is_closed_when_all_together_are_too_many(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dispatcher = Dispatcher([Row(1, lambda request: Reply(remark=f"{len(request.body)}"), ANYBODY)])
    async with Server(dispatcher, limits=NetLimits(unfinished_bytes=2048 * KIB)) as server:
        budget = server._unfinished
        links = [await asyncio.open_connection(server.host, server.port) for _ in range(4)]
        for (_reader, writer), size in zip(links, (600, 900, 400), strict=False):
            before = budget.total
            writer.write(FRAME[: size * KIB])
            await until(lambda before=before, size=size: budget.total >= before + size * KIB)
        assert len(server.links) == 4
        links[3][1].write(FRAME[: 300 * KIB])
        await until(lambda: len(server.links) == 3 and budget.total == 1300 * KIB)  # the rest may come in parts
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await links[1][0].readexactly(1)
        (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert "unfinishedBytesMax" in line
        assert "127.0.0.1 has the most" in line and f"this is its largest with {900 * KIB}" in line

        reader, writer = links[0]
        writer.write(FRAME[600 * KIB :])  # the others are served as ever
        size = int.from_bytes(await reader.readexactly(4), "big")
        assert str(1024 * KIB).encode() in await reader.readexactly(size)
        assert budget.total == 700 * KIB
        for _reader, writer in links:
            writer.close()
        await until(lambda: not server.links)
        assert budget.total == 0


async def test_a_body_too_large_for_its_request_is_refused_unread() -> None:
    served = []
    dispatcher = Dispatcher([Row(1, lambda request: served.append(1) or Reply(), ANYBODY, body_bytes_max=KIB)])
    async with Server(dispatcher) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        for size, wanted in ((KIB, b'"code":0'), (KIB + 1, b"requestBodyBytesMax")):
            writer.write(b"".join(encode_command(Command(1, body=b"x" * size))))
            answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            assert wanted in answer
        writer.close()
    assert served == [1]


async def test_what_would_be_refused_is_answered_when_its_header_is_there_and_its_body_is_passed_by() -> None:
    dispatcher = Dispatcher([Row(1, lambda request: Reply(remark=f"{len(request.body)}"), ANYBODY, body_bytes_max=KIB)])
    async with Server(dispatcher) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)

        async def answer() -> bytes:
            return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))

        unknown = b"".join(encode_command(Command(777, body=b"x" * (1024 * KIB))))
        for frame, wanted in ((FRAME, b"requestBodyBytesMax"), (unknown, b"not supported")):
            writer.write(frame[: 300 * KIB])
            assert wanted in await answer()  # long before the frame is complete
            assert server._unfinished.total == 0
            writer.write(frame[300 * KIB :])
            writer.write(b"".join(encode_command(Command(1, body=b"next"))))
            assert b'"remark":"4"' in await answer()
        writer.close()


class Beginner:
    """A link with an incomplete frame."""

    def __init__(self, host: str) -> None:
        self.remote = (host, 1)
        self.why = ""

    def abort(self, _kind: str, why: str) -> None:
        self.why = why


def test_a_host_with_many_small_beginnings_costs_others_no_large_message() -> None:
    budget = UnfinishedBytes(1000)
    large = Beginner("10.0.0.1")
    budget.note(large, 400)
    many = [Beginner("10.0.0.2") for _ in range(100)]
    for link in many:
        budget.note(link, 10)
    assert not large.why
    assert sum(bool(link.why) for link in many) == 40
    assert budget.total == 1000
