"""A part of the broker's process asks it without bytes and sockets: as a proxy, a replica or a console will."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import LinkError
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec.record import decode_record
from rocketlake.net.asked import InvokeTimeout
from rocketlake.net.limits import NetLimits
from rocketlake.net.local_link import LocalLink
from rocketlake.net.memory_net import MemoryNet
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.heartbeat import ConsumerEntry, Heartbeat
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from tests.requests import pull_header, send_header

CLIENT = ("192.168.7.7", 51_000)
"""The client in whose name the proxy asks."""


class Proxy:
    """A broker on no real network, and one asker inside its process."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        store = StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=10, index_entries=100)
        self.broker = Broker(
            BrokerConfig(listen_host="10.0.0.2", fast_listen_port=0, store_root=Path("/s")),
            store,
            limits=NetLimits(held=2),
            files=MemoryFiles(),
            clock=self.clock,
            network=MemoryNet(clock=self.clock).host("10.0.0.2"),
            workers=InlineWorker,
        )
        self.told: list[int] = []

    def join(self) -> LocalLink:
        return self.broker.join(CLIENT, {Code.NOTIFY_CONSUMER_IDS_CHANGED: self._changed})

    def _changed(self, request: Request) -> Reply:
        self.told.append(request.code)
        return Reply()

    async def ask(self, link: LocalLink, code: int, header: Any, body: bytes | None = None) -> asyncio.Task[Command]:
        task = asyncio.ensure_future(link.invoke(Command.request(code, header, body), 60_000))
        await self.clock.settle()
        return task

    async def send(self, link: LocalLink, body: bytes) -> Command:
        return (await self.ask(link, Code.SEND_MESSAGE_V2, send_header(), body)).result()

    async def pull(self, link: LocalLink, offset: int) -> asyncio.Task[Command]:
        """A pull that waits at the end of the queue."""
        asked = pull_header(offset=offset, wait_ms=15_000)
        return await self.ask(link, Code.PULL_MESSAGE, asked)


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    proxy = Proxy()
    await proxy.broker.start()
    yield proxy
    await proxy.broker.stop()


async def test_an_asker_in_process_sends_pulls_and_waits(proxy: Proxy) -> None:
    link = proxy.join()
    assert (await proxy.send(link, b"first")).code == ResponseCode.SUCCESS
    record = decode_record((await proxy.pull(link, 0)).result().body_bytes)
    assert (record.body, record.born_host) == (b"first", CLIENT)
    held = await proxy.pull(link, 1)
    assert (held.done(), len(proxy.broker.reading.hold)) == (False, 1)
    await proxy.send(link, b"second")
    assert decode_record(held.result().body_bytes).body == b"second"


async def test_a_command_that_is_asked_again_is_a_request_of_its_own(proxy: Proxy) -> None:
    link = proxy.join()
    command = Command.request(Code.SEND_MESSAGE_V2, send_header(), b"twice")
    asked = [asyncio.ensure_future(link.invoke(command, 60_000)) for _ in range(2)]
    await proxy.clock.settle()
    assert [((task.done() and task.result().fields) or {}).get("queueOffset") for task in asked] == ["0", "1"]


async def test_a_broker_that_stops_takes_no_more_askers(proxy: Proxy) -> None:
    await proxy.broker.stop()
    with pytest.raises(LinkError, match="stops, no more connections are taken"):
        proxy.join()


async def test_an_asker_that_closes_takes_its_held_pull_and_its_memberships_along(proxy: Proxy) -> None:
    link, stays = proxy.join(), proxy.join()
    await proxy.send(link, b"first")
    body = Heartbeat(client_id="client", consumers=[ConsumerEntry(group_name="g")]).encode()
    assert (await proxy.ask(link, Code.HEART_BEAT, None, body)).result().code == ResponseCode.SUCCESS
    assert (proxy.broker.clients.consumers.members("g"), proxy.told) == (["client"], [Code.NOTIFY_CONSUMER_IDS_CHANGED])
    held = await proxy.pull(link, 1)
    link.close()
    await proxy.clock.settle()
    assert (len(proxy.broker.reading.hold), proxy.broker.clients.consumers.members("g")) == (0, [])
    with pytest.raises(LinkError, match="closed"):
        await held
    assert (await proxy.send(stays, b"second")).code == ResponseCode.SUCCESS


async def test_limits_hold_in_process(proxy: Proxy) -> None:
    link = proxy.join()
    await proxy.send(link, b"first")
    held = [await proxy.pull(link, 1) for _ in range(3)]
    assert [task.done() for task in held] == [False, False, True]
    assert held[2].result().code == ResponseCode.SYSTEM_BUSY
    link.stop_reading()
    late = await proxy.pull(link, 0)
    await proxy.send(proxy.join(), b"second")
    assert [task.result().code for task in held[:2]] == [ResponseCode.PULL_NOT_FOUND] * 2
    assert not late.done()
    link.go_on_reading()
    await proxy.clock.settle()
    assert late.result().code == ResponseCode.SUCCESS


async def test_an_answer_that_does_not_come_in_time_is_an_error_with_request_and_peer(proxy: Proxy) -> None:
    link = proxy.join()
    link.stop_reading()
    lost = await proxy.ask(link, Code.GET_BROKER_RUNTIME_INFO, None)
    await proxy.clock.run_for(61_000)
    link.close()
    with pytest.raises(InvokeTimeout, match=r"GET_BROKER_RUNTIME_INFO to 10.0.0.2:\d+"):
        await lost


async def test_a_broker_that_stops_parts_from_its_askers(proxy: Proxy) -> None:
    link = proxy.join()
    await proxy.send(link, b"first")
    held = await proxy.pull(link, 1)
    await proxy.broker.stop()
    assert held.result().code == ResponseCode.PULL_NOT_FOUND
    with pytest.raises(LinkError, match="closed"):
        await link.invoke(Command.request(Code.GET_BROKER_RUNTIME_INFO), 1000)
