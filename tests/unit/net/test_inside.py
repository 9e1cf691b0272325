"""Connections inside a process: order, backpressure, the end of both sides, requests of one turn as one chunk."""

from __future__ import annotations

import asyncio

import pytest

from rocketlake.base.errors import LinkError
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.inside import InsideNetwork
from rocketlake.net.memory_net import MemoryNet
from rocketlake.net.request import Reply, Request
from rocketlake.net.server import Server
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import encode_command


class _Echo:
    """A server that answers with the body, and notes the chunks that it was sent."""

    def __init__(self) -> None:
        self.chunks: list[int] = []

    def handler(self, request: Request) -> Reply:
        return Reply(body=request.body)


async def joined(echo: _Echo) -> tuple[Server, NetClient]:
    """A server, and a client that reaches it inside."""
    net = MemoryNet()
    server = Server(Dispatcher([Row(1, echo.handler, ANYBODY)]), host="a", network=net.host("a"))
    await server.start()
    inside = InsideNetwork(net.host("b"))

    def make() -> asyncio.Protocol | None:
        link = server.link_inside()
        if link is not None:
            receive = link.data_received
            link.data_received = lambda data: (echo.chunks.append(len(data)), receive(data))  # type: ignore[method-assign]
        return link

    inside.add("a", server.port, make)
    client = NetClient(network=inside)
    await client.start()
    return server, client


async def test_requests_of_one_turn_arrive_as_one_chunk() -> None:
    echo = _Echo()
    server, client = await joined(echo)
    await client.invoke(server.address, Command(1, body=b"first"))
    before = len(echo.chunks)
    answers = await asyncio.gather(*[client.invoke(server.address, Command(1, body=b"%d" % n)) for n in range(50)])
    assert [answer.body_bytes for answer in answers] == [b"%d" % n for n in range(50)]
    assert len(echo.chunks) == before + 1
    await client.stop()
    await server.stop()


async def test_more_than_the_buffers_hold_arrives_whole() -> None:
    server, client = await joined(_Echo())
    bodies = [bytes([n]) * 500_000 for n in range(20)]
    answers = await asyncio.gather(*[client.invoke(server.address, Command(1, body=body), 20_000) for body in bodies])
    assert [answer.body_bytes for answer in answers] == bodies
    await client.stop()
    await server.stop()


async def test_a_server_that_stops_ends_its_links_and_takes_no_new_ones() -> None:
    server, client = await joined(_Echo())
    await client.invoke(server.address, Command(1, body=b"x"))
    await server.stop()
    assert server.links == {}
    with pytest.raises(LinkError, match="the server stops"):
        await client.invoke(server.address, Command(1, body=b"x"))
    await client.stop()


async def test_what_is_asked_in_one_piece_is_answered_before_the_return() -> None:
    echo = _Echo()
    server, client = await joined(echo)
    await client.invoke(server.address, Command(1, body=b"first"))
    heard: list[bytes] = []

    class Waiter:
        def done(self) -> bool:
            return False

        def set_result(self, answer: Command) -> None:
            heard.append(answer.body_bytes)

        def set_exception(self, error: LinkError) -> None:
            raise error

    def make(first: int) -> bytes:
        commands = [Command(1, opaque=first + n, body=b"%d" % n) for n in range(3)]
        return b"".join(bytes(part) for command in commands for part in encode_command(command))

    now, at_once = asyncio.get_running_loop().time(), [b""]
    for _ in range(10):  # a busy machine may end the server's turn before it has served: then the answers come later
        heard.clear()
        assert client.start_run(server.address, [(Waiter(), now + 60)] * 3, make)
        at_once = list(heard)
        async with asyncio.timeout(10):
            while len(heard) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert heard == [b"0", b"1", b"2"]
        if at_once:
            break
    assert at_once == heard
    await server.stop()
    assert not client.start_run(server.address, [(Waiter(), now + 60)], make)
    await client.stop()
