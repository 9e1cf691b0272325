"""The HTTP server: what it takes, what it refuses, what a peer may hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.net.http.page import HttpReply, text_reply
from rocketlake.net.http.server import HttpServer
from rocketlake.net.network import TcpNetwork

LIMIT_SECONDS = 30.0
Talk = Callable[[bytes], Awaitable[bytes]]


def hello() -> HttpReply:
    return text_reply("hello")


class World:
    """A server on a free port, and a clock moved by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.gate = asyncio.Event()
        pages = {"/hello": hello, "/slow": self.slow, "/large": self.large}
        self.server = HttpServer(pages, host="127.0.0.1", port=0, clock=self.clock, network=TcpNetwork())

    def slow(self) -> HttpReply:
        async def parts() -> AsyncIterator[bytes]:
            yield b"first"
            await self.gate.wait()
            yield b"second"

        return HttpReply(parts())

    def large(self) -> HttpReply:
        async def parts() -> AsyncIterator[bytes]:
            while not self.gate.is_set():
                yield b"x" * 65536

        return HttpReply(parts())

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.server.port)

    async def talk(self, said: bytes) -> bytes:
        """Say something; everything that is answered until the server closes."""
        reader, writer = await self.open()
        writer.write(said)
        async with asyncio.timeout(LIMIT_SECONDS):
            answer = await reader.read()
        writer.close()
        return answer


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.server.start()
    yield world
    world.gate.set()
    await world.server.stop()


def request(path: str = "/hello", method: str = "GET", more: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}\r\n".encode()


async def test_a_page_is_answered(world: World) -> None:
    head, _, body = (await world.talk(request())).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert body == b"5\r\nhello\r\n0\r\n\r\n"


async def test_head_has_no_body(world: World) -> None:
    head, _, body = (await world.talk(request(method="HEAD"))).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert body == b""


async def test_a_peer_of_http_1_0_reads_until_the_end(world: World) -> None:
    head, _, body = (await world.talk(b"GET /hello HTTP/1.0\r\n\r\n")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert body == b"hello"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (request("/other"), 404),
        (request(method="POST"), 405),
        (request(method="DELETE"), 405),
        (request(method="GET", more="Content-Length: 3\r\n") + b"abc", 413),
        (request(more="X-Long: " + "y" * 9000 + "\r\n"), 431),
        (request("/" + "z" * 9000), 431),
        (b"\x00\x01\x02\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\n\r\n", 400),
    ],
)
async def test_other_requests_are_refused(world: World, said: bytes, status: int) -> None:
    assert (await world.talk(said)).startswith(f"HTTP/1.1 {status} ".encode())


async def test_requests_follow_each_other_on_one_connection(world: World) -> None:
    answer = await world.talk(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n" * 2 + request())
    assert answer.count(b"HTTP/1.1 200 OK") == 3


async def test_a_peer_that_does_not_end_its_request_is_closed(world: World) -> None:
    reader, writer = await world.open()
    writer.write(b"GET /hello HT")
    while not world.server.peers:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await world.clock.run_for(9_000)
    writer.write(b"TP/1.1\r\n")  # a word now and then buys no more time
    await world.clock.run_for(3_000)
    async with asyncio.timeout(LIMIT_SECONDS):
        assert await reader.read() == b""
    writer.close()


async def test_a_peer_that_does_not_read_is_closed(world: World) -> None:
    reader, writer = await world.open()
    writer.write(request("/large"))
    async with asyncio.timeout(LIMIT_SECONDS):
        assert (await reader.read(15)).startswith(b"HTTP/1.1 200 OK")
    await world.clock.run_for(62_000)
    with pytest.raises(ConnectionError):
        while True:
            async with asyncio.timeout(LIMIT_SECONDS):
                if not await reader.read(1 << 20):
                    raise ConnectionError
    writer.close()


async def test_too_many_answers_at_once_are_refused(world: World) -> None:
    open_ones = [await world.open() for _ in range(4)]
    for reader, writer in open_ones:
        writer.write(request("/slow"))
        async with asyncio.timeout(LIMIT_SECONDS):
            await reader.readuntil(b"first")
    assert (await world.talk(request())).startswith(b"HTTP/1.1 503 ")
    world.gate.set()
    for reader, writer in open_ones:
        assert (await reader.read()).endswith(b"second\r\n0\r\n\r\n")
        writer.close()


async def test_silent_peers_make_room_for_others(world: World) -> None:
    silent = [await world.open() for _ in range(40)]
    assert (await world.talk(request())).startswith(b"HTTP/1.1 200 OK")
    for _, writer in silent:
        writer.close()


async def test_a_page_that_fails_ends_the_connection(world: World) -> None:
    world.server.pages["/bad"] = lambda: HttpReply(failing())
    assert not (await world.talk(request("/bad"))).endswith(b"0\r\n\r\n")
    assert (await world.talk(request())).startswith(b"HTTP/1.1 200 OK")


async def failing() -> AsyncIterator[bytes]:
    yield b"half"
    raise ValueError("a bug")
