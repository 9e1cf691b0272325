"""The in-memory network carries what TCP carries, and breaks when told."""

from __future__ import annotations

import asyncio

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.memory_net import MemoryNet
from rocketlake.net.network import CannotListen
from rocketlake.net.request import Reply
from rocketlake.net.server import Server
from rocketlake.protocol.command import Command


def echo_server(net: MemoryNet, host: str = "a", port: int = 10911) -> Server:
    dispatcher = Dispatcher([Row(34, lambda request: Reply(0, body=request.body), ANYBODY)])
    return Server(dispatcher, host=host, port=port, clock=net.clock, network=net.host(host))


async def test_a_request_is_answered() -> None:
    net = MemoryNet()
    server = echo_server(net)
    await server.start()
    client = NetClient(clock=net.clock, network=net.host("b"))
    answer = await client.invoke(server.address, Command.request(34, body=b"x" * 300_000))
    assert answer.body == b"x" * 300_000
    await client.close()
    await server.stop()
    assert not server.links


async def test_a_delay_is_the_clock_s_delay() -> None:
    clock = ManualClock()
    net = MemoryNet(clock=clock, delay_ms=(10, 10))
    server = echo_server(net)
    await server.start()
    client = NetClient(clock=clock, network=net.host("b"))
    call = asyncio.ensure_future(client.invoke(server.address, Command.request(34), 60_000))
    await clock.run_for(29)
    assert not call.done()
    await clock.run_for(2)
    assert (await call).code == 0
    await client.close()
    await server.stop()


async def test_a_partition_holds_bytes_back_and_healing_delivers_them() -> None:
    net = MemoryNet()
    server = echo_server(net)
    await server.start()
    client = NetClient(clock=net.clock, network=net.host("b"))
    await client.invoke(server.address, Command.request(34))
    net.partition("a", "b")
    call = asyncio.ensure_future(client.invoke(server.address, Command.request(34), 60_000))
    with pytest.raises(LinkError):
        await NetClient(network=net.host("b")).invoke(server.address, Command.request(34), 200)
    assert not call.done()
    net.heal()
    assert (await call).code == 0
    await client.close()
    await server.stop()


async def test_a_cut_connection_is_seen_by_both_sides() -> None:
    net = MemoryNet()
    server = echo_server(net)
    await server.start()
    client = NetClient(clock=net.clock, network=net.host("b"))
    await client.invoke(server.address, Command.request(34))
    net.cut_chance = 1.0
    with pytest.raises(LinkError, match="closed"):
        await client.invoke(server.address, Command.request(34))
    net.cut_chance = 0.0
    assert (await client.invoke(server.address, Command.request(34))).code == 0
    await client.close()
    await server.stop()


async def test_the_same_seed_cuts_at_the_same_message() -> None:
    async def first_cut(seed: int) -> int:
        net = MemoryNet(seed, cut_chance=0.1)
        server = echo_server(net)
        await server.start()
        client = NetClient(clock=net.clock, network=net.host("b"))
        answers = 0
        try:
            while answers < 1000:
                await client.invoke(server.address, Command.request(34))
                answers += 1
        except LinkError:
            pass
        await client.close()
        await server.stop()
        return answers

    assert await first_cut(5) == await first_cut(5)
    assert len({await first_cut(seed) for seed in range(8)}) > 1


async def test_a_port_is_listened_on_once() -> None:
    net = MemoryNet()
    server = echo_server(net)
    await server.start()
    with pytest.raises(CannotListen, match="in use"):
        await echo_server(net).start()
    await server.stop()
