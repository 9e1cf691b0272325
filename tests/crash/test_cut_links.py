"""The doors of cut_links.py: whose a connection is, and what a cut does to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator

import pytest

from tests.crash.cut_links import Cuts, Door
from tests.crash.socket_inode import Address, socket_inode

pytestmark = pytest.mark.smoke
OWNER = "127.0.7.1"


def test_the_kernel_tells_the_number_of_a_socket_until_it_is_closed() -> None:
    with socket.create_server((OWNER, 0)) as server, socket.create_connection(server.getsockname()) as client:
        ends = client.getsockname(), server.getsockname()
        assert socket_inode(*ends) == os.fstat(client.fileno()).st_ino
        assert socket_inode((OWNER, 1), ends[1]) == 0
        client.close()
        assert socket_inode(*ends) == 0


@contextlib.asynccontextmanager
async def echo_behind_a_door(cuts: Cuts) -> AsyncIterator[tuple[Door, Address, list[str]]]:
    """The door, its address, and from which address each connection came to the server."""
    sources: list[str] = []
    ends: list[asyncio.Task[None] | None] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(asyncio.current_task())
        sources.append(writer.get_extra_info("peername")[0])
        while data := await reader.read(100):
            writer.write(data)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    to: Address = server.sockets[0].getsockname()
    door = Door(cuts, OWNER, (OWNER, to[1]), to, {"127.0.7.2": os.getpid})
    await door.open()
    try:
        yield door, (OWNER, to[1]), sources
    finally:
        await asyncio.gather(*filter(None, ends))
        door.close()
        server.close()


async def end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    await writer.wait_closed()


async def test_a_link_is_its_openers_and_waits_while_it_is_cut() -> None:
    cuts = Cuts()
    async with echo_behind_a_door(cuts) as (_, at, sources):
        reader, writer = await asyncio.open_connection(*at)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        assert sources == ["127.0.7.2"]
        cuts.cut([OWNER], ["127.0.7.2"])
        writer.write(b"two")
        answer = asyncio.create_task(reader.readexactly(3))
        assert await asyncio.wait({answer}, timeout=0.2) == (set(), {answer})
        cuts.heal()
        assert await answer == b"two"
        await end(writer)


async def test_a_connection_that_is_gone_is_not_passed_on() -> None:
    async with echo_behind_a_door(Cuts()) as (_, at, sources):
        with socket.create_connection(at):
            pass  # closed before the door has looked whose it is: the loop did not run
        reader, writer = await asyncio.open_connection(*at)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        assert len(sources) == 1
        await end(writer)


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_to_a_door_that_closes_is_served_or_ended(turns: int) -> None:
    async with echo_behind_a_door(Cuts()) as (door, at, _):
        with socket.create_connection(at) as client:
            client.setblocking(False)
            for _ in range(turns):
                await asyncio.sleep(0)
            door.close()
            loop = asyncio.get_running_loop()
            with contextlib.suppress(ConnectionError):
                await loop.sock_sendall(client, b"one")
                assert await asyncio.wait_for(loop.sock_recv(client, 3), 10) in (b"one", b"")
